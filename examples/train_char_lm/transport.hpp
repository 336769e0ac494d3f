// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "axis.hpp"
#include "job.hpp"

namespace char_lm {

/// What the ranks of a mesh are. With threads one process is all ranks; with MPI each process is one.
class transport {
 public:
  virtual ~transport() = default;

  /// Whether this process is the one that speaks: the other ones print nothing.
  virtual bool root() const { return true; }
  virtual std::string kind() const = 0;

  /// Throws bad_input if there cannot be such a mesh.
  virtual void check_mesh(int data, int tensor) const = 0;

  /// Runs the job on a mesh of data x tensor ranks; `tensor` is one of tensor_ranks (options.hpp). With `rank_ordered`
  /// all sums are added in ascending rank, so that they have the same bits on every transport.
  virtual void train(const training_job<float>& job, int data, int tensor, bool rank_ordered) = 0;

  /// This process has failed: no other one shall wait for it.
  virtual void give_up(std::exception_ptr) noexcept {}
};

std::unique_ptr<transport> thread_transport();

/// Throws bad_input in a program that was built without MPI.
std::unique_ptr<transport> mpi_transport();

/// Runs the job as one rank, given its communicators.
void train_rank(const training_job<float>& job, axis& data, axis& tensor);

}  // namespace char_lm

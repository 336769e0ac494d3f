// SPDX-License-Identifier: MIT
#pragma once

// The processes of an MPI communicator as a data x tensor mesh:
//
//     swiglu::mpi_session session;                   // MPI_Init_thread; MPI_Finalize, or MPI_Abort after an exception
//     swiglu::mpi_mesh ranks(MPI_COMM_WORLD, 2, 2);  // 2 data ranks x 2 tensor ranks
//     layer::forward(x, w, s, ws, out, ranks.axes());

#include <mpi.h>

#include <stdexcept>
#include <string>

#include <swiglu/comm/detail/mpi_calls.hpp>
#include <swiglu/comm/mesh.hpp>
#include <swiglu/comm/mpi.hpp>

namespace swiglu {

/// The ranks of `parent` as a data x tensor mesh, row-major, and this rank's communicators along both axes. Collective
/// over the parent. Throws std::invalid_argument, on all ranks alike, unless data * tensor is its size.
class mpi_mesh {
 public:
  mpi_mesh(MPI_Comm parent, int data_ranks, int tensor_ranks, mpi_options options = {})
      : mpi_mesh(parent, place_of(parent, data_ranks, tensor_ranks), options) {}

  mpi_communicator data, tensor;

  mesh<mpi_communicator, mpi_communicator> axes() noexcept { return {data, tensor}; }

 private:
  struct place {
    int data, tensor;
  };
  static place place_of(MPI_Comm parent, int data_ranks, int tensor_ranks) {
    comm_detail::require_mpi_here();
    int rank = 0, size = 0;
    comm_detail::mpi(MPI_Comm_rank(parent, &rank), "MPI_Comm_rank");
    comm_detail::mpi(MPI_Comm_size(parent, &size), "MPI_Comm_size");
    if (data_ranks < 1 || tensor_ranks < 1 || size % data_ranks != 0 || size / data_ranks != tensor_ranks)
      throw std::invalid_argument("swiglu::mpi_mesh: " + std::to_string(data_ranks) + " data x " +
                                  std::to_string(tensor_ranks) + " tensor ranks expected, got " + std::to_string(size) +
                                  " processes");
    return {rank / tensor_ranks, rank % tensor_ranks};
  }

  mpi_mesh(MPI_Comm parent, place at, const mpi_options& options)
      : data(parent, at.tensor, at.data, options), tensor(parent, at.data, at.tensor, options) {}
};

}  // namespace swiglu

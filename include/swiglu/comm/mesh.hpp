// SPDX-License-Identifier: MIT
#pragma once

// A rank's place in a data x tensor mesh: its communicator along each axis.

#include <exception>

#include <swiglu/comm/collectives.hpp>

namespace swiglu {

/// Refers to the two communicators of one rank; it does not own them. `data` joins the ranks that hold the same weights
/// and see different batches, `tensor` those that see the same batch and hold different columns of the weights.
///
///     swiglu::mesh axes{data_communicator, tensor_communicator};
///
/// For an axis that does not exist, pass a swiglu::self. Copying it copies the references.
template <class Data, class Tensor>
class mesh {
 public:
  mesh(Data& data_axis, Tensor& tensor_axis) noexcept : data(data_axis), tensor(tensor_axis) {}

  Data& data;
  Tensor& tensor;

  /// Row-major over (data, tensor), the last axis fastest.
  int rank() const { return data.rank() * tensor.size() + tensor.rank(); }
  int size() const { return data.size() * tensor.size(); }

  /// Aborts both axes, where they can be: a rank that fails must not leave peers waiting on either.
  void abort(std::exception_ptr error) noexcept {
    abort_peers(data, error);
    abort_peers(tensor, error);
  }
};

}  // namespace swiglu

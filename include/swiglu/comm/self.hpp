// SPDX-License-Identifier: MIT
#pragma once

// The communicator of a rank that is alone. Every sum over one rank is the term itself, so it does nothing: the layer
// on one rank costs what it would cost without a communicator, and `self` stands in for the axis a mesh does not have.

#include <algorithm>
#include <exception>
#include <span>
#include <string_view>

#include <swiglu/comm/collectives.hpp>
#include <swiglu/comm/communicator.hpp>

namespace swiglu {

/// One rank; satisfies every refinement. Holds no state: it may be shared by any number of threads, and abort() has no
/// one to tell. Touches no buffer, except that reduce_scatter and all_gather copy `in` to `out`.
class self {
 public:
  static constexpr reduction_order order = reduction_order::rank_order;

  int rank() const noexcept { return 0; }
  int size() const noexcept { return 1; }

  template <class T>
  void all_reduce(std::span<T>) const noexcept {}

  template <class T>
  void all_reduce(std::span<const std::span<T>>, std::span<const std::string_view> = {}) const noexcept {}

  template <class T>
  [[nodiscard]] finished_request iall_reduce(std::span<T>, std::string_view = {}) const noexcept {
    return {};
  }

  /// Throws std::invalid_argument if the sizes differ, as does all_gather.
  template <class T>
  void reduce_scatter(std::span<const T> in, std::span<T> out) const {
    comm_detail::require_size(in.size() == out.size(), "swiglu::self: the input and the output differ in size");
    std::ranges::copy(in, out.begin());
  }

  template <class T>
  void all_gather(std::span<const T> in, std::span<T> out) const {
    reduce_scatter(in, out);
  }

  void abort(std::exception_ptr) const noexcept {}
};

}  // namespace swiglu

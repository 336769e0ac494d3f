// SPDX-License-Identifier: MIT
#pragma once

// Collectives on any communicator: each function uses the refinement where the communicator has it and the three basic
// members where it has not. The rest of the library communicates only through these. None of them allocates.
// T comes first, so that `all_reduce<float>(c, buffers)` accepts everything that converts to the spans.
//
// Thread safety and errors are those of the communicator; wrong sizes are a std::invalid_argument, thrown before any
// rank is met.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include <swiglu/comm/communicator.hpp>

namespace swiglu {

namespace comm_detail {

inline void require_size(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

}  // namespace comm_detail

/// Sums every buffer of a bundle over the ranks, in place. `names`, if given, are one per buffer and must be the same
/// on all ranks; a tagged_communicator checks that they are, any other ignores them. Without the refinement: one
/// all_reduce per buffer, in order (an empty bundle is then no call at all).
template <class T, communicator<T> C>
void all_reduce(C& c, std::span<const std::span<T>> buffers,
                std::type_identity_t<std::span<const std::string_view>> names = {}) {
  comm_detail::require_size(names.empty() || names.size() == buffers.size(),
                            "swiglu::all_reduce: a bundle needs one name per buffer, or none");
  if constexpr (tagged_communicator<C, T>) {
    if (!names.empty()) return c.all_reduce(buffers, names);
  }
  if constexpr (bundled_communicator<C, T>) {
    c.all_reduce(buffers);
  } else {
    for (const std::span<T> buffer : buffers) c.all_reduce(buffer);
  }
}

/// The request of a collective that is already complete.
class finished_request {
 public:
  void wait() const noexcept {}
  bool test() const noexcept { return true; }
};

/// Starts to sum `buffer` over the ranks, in place, and returns a request; the buffer is borrowed until its wait().
/// `name`, if given, must be the same on all ranks; it is used where iall_reduce accepts one.
/// Without the refinement: the whole all_reduce happens here, before the function returns.
template <class T, communicator<T> C>
[[nodiscard]] auto start_all_reduce(C& c, std::span<T> buffer, std::string_view name = {}) {
  if constexpr (requires {
                  { c.iall_reduce(buffer, name) } -> request;
                }) {
    return c.iall_reduce(buffer, name);
  } else if constexpr (nonblocking_communicator<C, T>) {
    return c.iall_reduce(buffer);
  } else {
    c.all_reduce(buffer);
    return finished_request{};
  }
}

/// Leaves the r-th part of the sum of `in` on rank r, in `out`; in.size() == size() * out.size(), no overlap.
/// `in` is scratch: its contents afterwards are unspecified.
/// Without the refinement: all_reduce of `in`, then a copy of the part.
template <class T, communicator<T> C>
void reduce_scatter(C& c, std::span<T> in, std::type_identity_t<std::span<T>> out) {
  comm_detail::require_size(in.size() == out.size() * static_cast<std::size_t>(c.size()),
                            "swiglu::reduce_scatter: the input must be size() times as long as the output");
  if constexpr (scatter_gather_communicator<C, T>) {
    c.reduce_scatter(std::span<const T>(in), out);
  } else {
    c.all_reduce(in);
    std::ranges::copy(in.subspan(out.size() * static_cast<std::size_t>(c.rank()), out.size()), out.begin());
  }
}

/// Leaves the inputs of all ranks in `out` of every rank, in ascending rank; out.size() == size() * in.size(), no
/// overlap. Without the refinement: an all_reduce of `out`, to which every rank contributes only its own part. The
/// other parts are filled with -0, because x + (-0) is x for every x, whereas (-0) + 0 would lose the sign.
template <class T, communicator<T> C>
void all_gather(C& c, std::span<const T> in, std::type_identity_t<std::span<T>> out) {
  comm_detail::require_size(out.size() == in.size() * static_cast<std::size_t>(c.size()),
                            "swiglu::all_gather: the output must be size() times as long as the input");
  if constexpr (scatter_gather_communicator<C, T>) {
    c.all_gather(in, out);
  } else {
    std::ranges::fill(out, static_cast<T>(-T{}));
    std::ranges::copy(in, out.subspan(in.size() * static_cast<std::size_t>(c.rank()), in.size()).begin());
    c.all_reduce(out);
  }
}

/// Tells the peers that this rank has failed, if the transport can. Returns whether it could; if not, they find out by
/// whatever means the transport has (a closed connection, a deadline).
template <class C>
bool abort_peers(C& c, std::exception_ptr error) noexcept {
  if constexpr (abortable_communicator<C>) {
    c.abort(std::move(error));
    return true;
  } else {
    return false;
  }
}

}  // namespace swiglu

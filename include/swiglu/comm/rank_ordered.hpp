// SPDX-License-Identifier: MIT
#pragma once

// Any communicator, with sums added in ascending rank: ((x0 + x1) + x2) + ... The same bits on every transport, those
// of comm/threads.hpp included, from run to run, and whatever the count or the bundle.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <swiglu/comm/collectives.hpp>
#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/detail/shown_call.hpp>

namespace swiglu {

namespace comm_detail {

/// The bits of a number as whole numbers that T itself holds exactly, so that a communicator that can only add carries
/// them unchanged: whatever it does to the sign of a zero, to a subnormal number or to the payload of a NaN.
template <class T>
struct bit_pieces {
  static_assert(
      std::is_arithmetic_v<T> && sizeof(T) <= 8,
      "swiglu::rank_ordered: over a communicator without all_gather, T has to be a number of at most 64 bits");
  static constexpr int digits = std::numeric_limits<T>::digits;
  static constexpr std::size_t bits = digits >= 32 ? 32 : digits >= 16 ? 16 : digits >= 8 ? 8 : digits >= 4 ? 4 : 1;
  static constexpr std::size_t count = (8 * sizeof(T) + bits - 1) / bits;

  using word = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t,
                                                     std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;

  static void split(T value, std::span<T> pieces) {
    const std::uint64_t all = std::bit_cast<word>(value);
    for (std::size_t i = 0; i < pieces.size(); ++i)
      pieces[i] = static_cast<T>(all >> (bits * i) & ((std::uint64_t{1} << bits) - 1));
  }
  static T join(std::span<const T> pieces) {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) all |= static_cast<std::uint64_t>(pieces[i]) << (bits * i);
    return std::bit_cast<T>(static_cast<word>(all));
  }
};

}  // namespace comm_detail

/// Refers to a communicator of one rank and does not own it. Every rank gets the terms of all and adds them up for
/// itself, a tile at a time: (size() - 1) n elements come in for a sum of n, instead of about 2 n, and with a C that
/// has no all_gather the terms travel as whole numbers, each in two or so. A price for exact repetition, not for speed.
///
/// The refinements: reduce_scatter and all_gather always, abort if C has it; no iall_reduce, and bundles by one call
/// per buffer, which changes no bit. Names are the business of a `checked` around it. Errors and thread safety are
/// those of C. Allocates when the first calls of an element type do.
template <class C>
class rank_ordered {
 public:
  static constexpr reduction_order order = reduction_order::rank_order;

  explicit rank_ordered(C& communicator) : communicator_(communicator) {}

  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  template <comm_detail::summable T>
    requires communicator<C, T>
  void all_reduce(std::span<T> buffer) {
    if (size() == 1) return;
    if (buffer.empty()) return wait_for_all<T>();
    each_tile(buffer.size(), [&](std::size_t first, std::size_t count) {
      fold(gathered(std::span<const T>(buffer).subspan(first, count)), buffer.subspan(first, count));
    });
  }

  template <comm_detail::summable T>
    requires communicator<C, T>
  void reduce_scatter(std::span<const T> in, std::span<T> out) {
    check_sizes(in.size(), out.size());
    if (in.empty()) return wait_for_all<T>();
    for (std::size_t r = 0; r < ranks(); ++r)
      each_tile(out.size(), [&](std::size_t first, std::size_t count) {
        const std::span<const T> terms = gathered(in.subspan(r * out.size() + first, count));
        if (r == static_cast<std::size_t>(rank())) fold(terms, out.subspan(first, count));
      });
  }

  template <comm_detail::summable T>
    requires communicator<C, T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    check_sizes(out.size(), in.size());
    if (in.empty()) return wait_for_all<T>();
    each_tile(in.size(), [&](std::size_t first, std::size_t count) {
      const std::span<const T> parts = gathered(in.subspan(first, count));
      for (std::size_t r = 0; r < ranks(); ++r)
        std::ranges::copy(parts.subspan(r * count, count), out.subspan(r * in.size() + first).begin());
    });
  }

  void abort(std::exception_ptr error) noexcept requires abortable_communicator<C> {
    communicator_.abort(std::move(error));
  }

 private:
  // Elements gathered at a time, because the terms of all ranks have to be somewhere. The same on every rank.
  static constexpr std::size_t tile = 32 * 1024;

  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  void check_sizes(std::size_t whole, std::size_t part) const {
    comm_detail::require_size(whole == part * ranks(),
                              "swiglu::rank_ordered: the larger span has to be size() times as long as the smaller");
  }
  template <class T>
  void wait_for_all() {
    communicator_.all_reduce(std::span<T>());
  }

  template <class F>
  static void each_tile(std::size_t count, F f) {
    for (std::size_t first = 0; first < count; first += tile) f(first, std::min(tile, count - first));
  }

  /// The terms of all ranks, one rank's after the other's.
  template <class T>
  std::span<const T> gathered(std::span<const T> mine) {
    const std::size_t n = mine.size();
    if constexpr (scatter_gather_communicator<C, T>) {
      const std::span<T> all = room<T>(ranks() * n);
      communicator_.all_gather(mine, all);
      return all;
    } else {
      using pieces = comm_detail::bit_pieces<T>;
      const std::span<T> all = room<T>(ranks() * n * (pieces::count + 1));
      const std::span<T> moved = all.subspan(ranks() * n);
      std::ranges::fill(moved, T{});
      for (std::size_t i = 0; i < n; ++i)
        pieces::split(mine[i],
                      moved.subspan((static_cast<std::size_t>(rank()) * n + i) * pieces::count, pieces::count));
      communicator_.all_reduce(moved);
      for (std::size_t i = 0; i < ranks() * n; ++i)
        all[i] = pieces::join(moved.subspan(i * pieces::count, pieces::count));
      return all.first(ranks() * n);
    }
  }

  /// Begins with the term of rank 0: begun at zero, a sum of -0 is +0.
  template <class T>
  void fold(std::span<const T> terms, std::span<T> sum) const {
    std::ranges::copy(terms.first(sum.size()), sum.begin());
    for (std::size_t r = 1; r < ranks(); ++r) {
      const std::span<const T> term = terms.subspan(r * sum.size(), sum.size());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = static_cast<T>(sum[i] + term[i]);
    }
  }

  template <class T>
  std::span<T> room(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t),
                  "swiglu::rank_ordered: elements have to be plain data");
    const std::size_t bytes = count * sizeof(T);
    if (scratch_.size() < bytes) scratch_.resize(bytes);
    return {reinterpret_cast<T*>(scratch_.data()), count};
  }

  C& communicator_;
  std::vector<std::byte> scratch_;
};

}  // namespace swiglu

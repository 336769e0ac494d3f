// SPDX-License-Identifier: MIT
#pragma once

// The body of a kernel: one register of every assignment at a time, over the rows and columns of a tile. The same body
// is an elementwise kernel over a matrix and the epilogue of a contraction over its tiles.

#include <array>
#include <cstddef>
#include <utility>

#include <swiglu/expr/plan.hpp>
#include <swiglu/gemm/epilogue.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {
namespace impl {

/// What nodes ask while one register is computed.
template <class Plan, real T>
struct register_context {
  struct gate_values {
    pack<T> x;
    sigmoid_pair<pack<T>> pair;
  };
  const product_tile<T>& tile;
  std::array<gate_values, Plan::gates> memo;

  template <std::size_t P>
  [[gnu::always_inline]] pack<T> product(std::size_t row, std::size_t col) const {
    constexpr std::size_t g = Plan::group[P];
    return pack<T>::load(tile.group[g] + (row - tile.row) * tile.pitch[g] + (col - tile.col));
  }
  template <std::size_t G, class F>
  [[gnu::always_inline]] const gate_values& gate(const F& argument) {
    constexpr std::size_t first = Plan::first_gate[G];
    if constexpr (first == G) {
      const pack<T> x = argument();
      memo[G] = {x, sigmoid_and_complement(x)};
    }
    return memo[first];
  }
};

template <bool Whole, class View>
[[gnu::always_inline]] inline void store(const View& to, place<Whole> at, pack<typename View::value_type> x) {
  using V = pack<typename View::value_type>;
  if constexpr (is_panel_view<View>) {
    if constexpr (!Whole) {  // padding stays zero
      alignas(alignment) typename View::value_type lanes[V::size];
      x.store(lanes);
      x = V::load_partial(lanes, at.n);
    }
    x.store(to.at(at.row, at.col));
  } else {
    auto* p = to.data() + at.row * to.pitch() + at.col;
    if constexpr (Whole)
      x.store(p);
    else
      x.store_partial(p, at.n);
  }
}
template <bool Whole, class View>
[[gnu::always_inline]] inline pack<typename View::value_type> load(const View& from, place<Whole> at) {
  using V = pack<typename View::value_type>;
  if constexpr (is_panel_view<View>)
    return V::load(from.at(at.row, at.col));
  else
    return Whole ? V::load(from.data() + at.row * from.pitch() + at.col)
                 : V::load_partial(from.data() + at.row * from.pitch() + at.col, at.n);
}

/// Computes one register of every assignment, then stores them.
template <class Plan, bool Whole, real T, class... Assigned>
[[gnu::always_inline]] inline void write_register(const product_tile<T>& tile, place<Whole> at,
                                                  const Assigned&... assigned) {
  register_context<Plan, T> context{tile, {}};
  [&]<std::size_t... Nth>(std::index_sequence<Nth...>) __attribute__((always_inline)) {
    std::array<pack<T>, sizeof...(Assigned)> values{
        assigned.from.template value<Plan::products_before(Nth), Plan::gates_before(Nth)>(context, at)...};
    ((values[Nth] = Assigned::accumulate ? load(assigned.to, at) + values[Nth] : values[Nth]), ...);
    (store(assigned.to, at, values[Nth]), ...);
  }
  (std::index_sequence_for<Assigned...>{});
}

/// The rows and columns of a tile; `ByColumn`: registers of one column follow one another, so that the lines which a
/// transposed operand touches are used up while they are in L1.
template <class Plan, bool ByColumn, real T, class... Assigned>
void write_tile(const product_tile<T> tile, const Assigned... assigned) {
  constexpr std::size_t size = pack<T>::size;
  const auto one = [&](std::size_t r, std::size_t c) __attribute__((always_inline)) {
    if (c + size <= tile.cols)
      write_register<Plan>(tile, place<true>{tile.row + r, tile.col + c, size}, assigned...);
    else
      write_register<Plan>(tile, place<false>{tile.row + r, tile.col + c, tile.cols - c}, assigned...);
  };
  if constexpr (ByColumn) {
    for (std::size_t c = 0; c < tile.cols; c += size)
      for (std::size_t r = 0; r < tile.rows; ++r) one(r, c);
  } else {
    for (std::size_t r = 0; r < tile.rows; ++r)
      for (std::size_t c = 0; c < tile.cols; c += size) one(r, c);
  }
}

template <class E>
inline constexpr bool reads_transposed = false;
template <class L>
inline constexpr bool reads_transposed<transposed_leaf<L>> = true;
template <class F, class... Args>
inline constexpr bool reads_transposed<map_node<F, Args...>> = (reads_transposed<Args> || ...);
template <gate_kind K, class Arg>
inline constexpr bool reads_transposed<gate_node<K, Arg>> = reads_transposed<Arg>;

/// A panel destination whose last strip is half covered by registers: the other half is padding too.
template <class View>
void clear_padding(const View& to) {
  if constexpr (is_panel_view<View>) {
    using V = pack<typename View::value_type>;
    for (std::size_t c = round_up(to.cols(), V::size); c % View::run != 0; c += V::size)
      for (std::size_t r = 0; r < to.rows(); ++r) V(typename View::value_type(0)).store(to.at(r, c));
  }
}

}  // namespace impl
}  // namespace SWIGLU_ABI
}  // namespace swiglu

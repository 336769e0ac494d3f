// SPDX-License-Identifier: MIT
#pragma once

// The body of a kernel: one register of every assignment at a time, over the rows and columns of a tile. The same body
// is an elementwise kernel over a matrix and the epilogue of a contraction over its tiles.

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <swiglu/expr/plan.hpp>
#include <swiglu/gemm/epilogue.hpp>
#include <swiglu/gemm/prefetch.hpp>
#include <swiglu/pack_group.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {
namespace impl {

/// The products of a tile in memory: get<G>(row, col) is a register of group G.
template <real T>
struct tile_products {
  const product_tile<T>& tile;
  template <std::size_t G>
  [[gnu::always_inline]] pack<T> get(std::size_t row, std::size_t col) const {
    return pack<T>::load(tile.group[G] + (row - tile.row) * tile.pitch[G] + (col - tile.col));
  }
};

/// The argument of a gate, its sigmoid and the complement.
template <real T>
struct gate_values {
  pack<T> x;
  sigmoid_pair<pack<T>> pair;
};
/// One register's gates, of which only the first of each argument is computed.
template <class Plan, real T>
using gate_memory = std::array<gate_values<T>, Plan::gates>;

/// What nodes ask while one register is computed. `Products`: where they are, as tile_products.
template <class Plan, real T, class Products>
struct register_context {
  const Products& products;
  const gate_memory<Plan, T>& gates;

  template <std::size_t P>
  [[gnu::always_inline]] pack<T> product(std::size_t row, std::size_t col) const {
    return products.template get<Plan::group[P]>(row, col);
  }
  template <std::size_t G>
  [[gnu::always_inline]] const gate_values<T>& gate() const {
    return gates[Plan::first_gate[G]];
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
  } else if constexpr (detail::is_interleaved<View>) {
    if (to.consecutive(V::size)) {
      if constexpr (Whole)
        x.store(to.at(at.row, at.col));
      else
        x.store_partial(to.at(at.row, at.col), at.n);
    } else {
      alignas(alignment) typename View::value_type lanes[V::size];
      x.store(lanes);
      for (std::size_t i = 0; i < (Whole ? V::size : at.n); ++i) to(at.row, at.col + i) = lanes[i];
    }
  } else {
    auto* p = to.data() + at.row * to.pitch() + at.col;
    if constexpr (Whole)
      x.store(p);
    else
      x.store_partial(p, at.n);
  }
}

/// Calls f<G, P, First>(argument) for every gate G that is computed, inner ones before outer ones. The register of its
/// argument is argument.value<P, First>(context, place).
template <class Plan, class F, class... Assigned>
[[gnu::always_inline]] inline void each_gate(const F& f, const Assigned&... assigned) {
  const auto one = [&]<std::size_t G>() __attribute__((always_inline)) {
    if constexpr (Plan::first_gate[G] == G) {
      constexpr std::size_t i = Plan::assignment_of_gate(G);
      using gate = std::tuple_element_t<G, typename Plan::gate_list>;
      f.template operator()<G, gate::first_product, G - gate::type::gates>(
          gate_argument<G - Plan::gates_before(i)>(std::get<i>(std::tie(assigned...)).from));
    }
  };
  [&]<std::size_t... G>(std::index_sequence<G...>) __attribute__((always_inline)) {
    (one.template operator()<G>(), ...);
  }
  (std::make_index_sequence<Plan::gates>{});
}

/// sigmoid_and_complement as a function of its own, compiled once for all kernels.
template <real T, std::size_t N>
[[gnu::noinline]] void sigmoid_pairs(const pack_group<T, N>& x, sigmoid_pair<pack_group<T, N>>& to) {
  to = sigmoid_and_complement(x);
}

/// Registers that a kernel computes side by side: four if there is an exponential in it.
template <class Plan>
inline constexpr std::size_t registers_at_once = Plan::gates > 0 ? 4 : 1;

/// Computes one register of every assignment, then stores them: right-hand sides see the old values.
template <class Plan, real T, class Context, bool Whole, class... Assigned>
[[gnu::always_inline]] inline void write_register(const Context& context, place<Whole> at,
                                                  const Assigned&... assigned) {
  [&]<std::size_t... Nth>(std::index_sequence<Nth...>) __attribute__((always_inline)) {
    std::array<pack<T>, sizeof...(Assigned)> values{
        assigned.from.template value<Plan::products_before(Nth), Plan::gates_before(Nth)>(context, at)...};
    ((values[Nth] = Assigned::accumulate ? load_register(assigned.to, at) + values[Nth] : values[Nth]), ...);
    (store(assigned.to, at, values[Nth]), ...);
  }
  (std::index_sequence_for<Assigned...>{});
}

/// Computes `rows` registers of every assignment, one below the other: first the gates of all of them side by side.
template <class Plan, real T, bool Whole, class... Assigned>
[[gnu::always_inline]] inline void write_rows(const product_tile<T>& tile, place<Whole> at, std::size_t rows,
                                              const Assigned&... assigned) {
  constexpr std::size_t at_once = registers_at_once<Plan>;
  const tile_products<T> products{tile};
  std::array<gate_memory<Plan, T>, at_once> gates;
  const auto below = [&](std::size_t i) { return place<Whole>{at.row + i, at.col, at.n}; };
  const auto compute = [&]<std::size_t G, std::size_t P, std::size_t First>(const auto& argument)
      __attribute__((always_inline)) {
    pack_group<T, at_once> x(T(0));
    for (std::size_t i = 0; i < rows; ++i) {
      register_context<Plan, T, tile_products<T>> context{products, gates[i]};
      x.part[i] = argument.template value<P, First>(context, below(i));
    }
    sigmoid_pair<pack_group<T, at_once>> pair;
    sigmoid_pairs(x, pair);
    for (std::size_t i = 0; i < rows; ++i) gates[i][G] = {x.part[i], {pair.sigmoid.part[i], pair.complement.part[i]}};
  };
  each_gate<Plan>(compute, assigned...);
  for (std::size_t i = 0; i < rows; ++i)
    write_register<Plan, T>(register_context<Plan, T, tile_products<T>>{products, gates[i]}, below(i), assigned...);
}

/// The rows and columns of a tile; `ByColumn`: registers of one column follow one another, so that the lines which a
/// transposed operand touches are used up while they are in L1.
template <class Plan, bool ByColumn, real T, class... Assigned>
void write_tile(const product_tile<T> tile, const Assigned... assigned) {
  constexpr std::size_t size = pack<T>::size, at_once = registers_at_once<Plan>;
  const auto rows = [&](std::size_t r, std::size_t c, std::size_t n) __attribute__((always_inline)) {
    if (c + size <= tile.cols)
      write_rows<Plan, T>(tile, place<true>{tile.row + r, tile.col + c, size}, n, assigned...);
    else
      write_rows<Plan, T>(tile, place<false>{tile.row + r, tile.col + c, tile.cols - c}, n, assigned...);
  };
  if constexpr (ByColumn) {
    for (std::size_t c = 0; c < tile.cols; c += size)
      for (std::size_t r = 0; r < tile.rows; r += at_once) rows(r, c, std::min(at_once, tile.rows - r));
  } else {
    for (std::size_t r = 0; r < tile.rows; r += at_once)
      for (std::size_t c = 0; c < tile.cols; c += size) rows(r, c, std::min(at_once, tile.rows - r));
  }
}

/// Calls f for every matrix that e reads element by element where it writes.
template <class E, class F>
void each_source(const E& e, const F& f) {
  if constexpr (is_matrix_leaf<E>) {
    if constexpr (requires { e.source; }) f(e.source);
  } else if constexpr (requires { e.arg; }) {
    each_source(e.arg, f);
  } else if constexpr (requires { e.args; }) {
    std::apply([&](const auto&... a) { (each_source(a, f), ...); }, e.args);
  }
}

/// The assignments of a kernel as the epilogue of its contraction.
template <class Plan, real T, class... Assigned>
struct tile_writer {
  std::tuple<const Assigned&...> assigned;

  void operator()(const product_tile<T>& tile) const {
    std::apply([&](const auto&... a) { write_tile<Plan, false>(tile, a...); }, assigned);
  }
  void prefetch(const product_tile<T>& tile, prefetch_list& list) const {
    const auto ask = [&](const auto& m) {
      for (std::size_t r = tile.row; r < tile.row + tile.rows; ++r)
        for (std::size_t c = tile.col; c < tile.col + tile.cols; c += pack<T>::size) {
          if constexpr (requires { m.at(r, c); })
            list.add(m.at(r, c));
          else
            list.add(m.data() + r * m.pitch() + c);
        }
    };
    std::apply([&](const auto&... a) { ((ask(a.to), each_source(a.from, ask)), ...); }, assigned);
  }
};

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

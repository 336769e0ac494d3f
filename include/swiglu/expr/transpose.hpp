// SPDX-License-Identifier: MIT
#pragma once

// transpose(e) moves to the leaves of e: transpose(silu(a) * b) reads a and b transposed. No transposed copy exists
// unless one is the destination.

#include <cstddef>
#include <tuple>

#include <swiglu/expr/node.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// The transpose of a view_leaf, an interleaved_leaf or a panel_leaf: lane i is read one row further down.
template <class Leaf>
struct transposed_leaf : node {
  using value_type = typename Leaf::value_type;
  static constexpr std::size_t static_rows = Leaf::static_cols, static_cols = Leaf::static_rows;
  static constexpr std::size_t products = 0, gates = 0;
  Leaf leaf;

  explicit transposed_leaf(Leaf l) : leaf(l) {}
  std::size_t rows() const { return leaf.cols(); }
  std::size_t cols() const { return leaf.rows(); }
  template <std::size_t, std::size_t, class Context, bool Whole>
  [[gnu::always_inline]] pack<value_type> value(Context&, place<Whole> at) const {
    using V = pack<value_type>;
    if constexpr (requires { leaf.source.block(); }) {
      alignas(alignment) value_type lanes[V::size] = {};
      for (std::size_t i = 0; i < (Whole ? V::size : at.n); ++i) lanes[i] = leaf.source(at.col + i, at.row);
      return V::load(lanes);
    } else if constexpr (requires { leaf.source.at(at.col, at.row); })
      return V::gather(leaf.source.at(at.col, at.row), strip_columns<value_type>, Whole ? V::size : at.n);
    else
      return V::gather(leaf.source.data() + at.col * leaf.source.pitch() + at.row, leaf.source.pitch(),
                       Whole ? V::size : at.n);
  }
};

// Declared here, although product.hpp follows: nodes hold other nodes, so each overload below has to see all of them.
template <name Name, class... Pairs>
struct product_node;

namespace impl {

template <name Name, class... Pairs>
auto transposed(product_node<Name, Pairs...> e);
template <class F, class... Args>
auto transposed(map_node<F, Args...> e);
template <gate_kind Kind, class Arg>
auto transposed(gate_node<Kind, Arg> e);

template <class View>
[[gnu::always_inline]] inline transposed_leaf<view_leaf<View>> transposed(view_leaf<View> e) {
  return transposed_leaf<view_leaf<View>>(e);
}
template <class View>
[[gnu::always_inline]] inline transposed_leaf<interleaved_leaf<View>> transposed(interleaved_leaf<View> e) {
  return transposed_leaf<interleaved_leaf<View>>(e);
}
template <class View>
[[gnu::always_inline]] inline transposed_leaf<panel_leaf<View>> transposed(panel_leaf<View> e) {
  return transposed_leaf<panel_leaf<View>>(e);
}
template <class Leaf>
[[gnu::always_inline]] inline Leaf transposed(transposed_leaf<Leaf> e) {
  return e.leaf;
}
template <real T>
[[gnu::always_inline]] inline scalar_leaf<T> transposed(scalar_leaf<T> e) {
  return e;
}
template <class View, bool Down>
[[gnu::always_inline]] inline broadcast_leaf<View, !Down> transposed(broadcast_leaf<View, Down> e) {
  return broadcast_leaf<View, !Down>(e.source);
}
template <gate_kind Kind, class Arg>
[[gnu::always_inline]] inline auto transposed(gate_node<Kind, Arg> e) {
  auto arg = transposed(e.arg);
  return gate_node<Kind, decltype(arg)>(arg);
}
template <class F, class... Args>
[[gnu::always_inline]] inline auto transposed(map_node<F, Args...> e) {
  return std::apply([&](const Args&... a) { return map_node<F, decltype(transposed(a))...>(e.f, transposed(a)...); },
                    e.args);
}

}  // namespace impl

}  // namespace SWIGLU_ABI
}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// The shape of the layer and its parameters. Everywhere gate is w1, up is w3, down is w2 (and those names are aliases,
// since elsewhere w2 is up as often as down):
//
//     h1 = x gate    h3 = x up    h = silu(h1) h3    out = h down

#include <cstddef>
#include <type_traits>

#include <swiglu/mlp/layout.hpp>
#include <swiglu/tensor.hpp>

namespace swiglu {

/// The shape of a layer. Each of `tensor_parallel` ranks holds intermediate / tensor_parallel outputs of gate and up
/// and as many inputs of down. `tokens` may be fixed at compile time; by default every call brings its own number.
/// `layout` says how its weights, and their gradients, lie in memory.
struct dims {
  std::size_t hidden, intermediate;
  std::size_t tensor_parallel = 1;
  std::size_t tokens = dynamic;
  weight_layout layout = in_out;

  constexpr std::size_t local_intermediate() const { return intermediate / tensor_parallel; }
  friend constexpr bool operator==(const dims&, const dims&) = default;
};

/// Borrowed weights, or gradients, in layout L (by default gate, up [hidden, intermediate], down [intermediate,
/// hidden]); any row pitch.
template <class T, std::size_t Hidden, std::size_t Intermediate, weight_layout L = in_out>
struct weights_view {
  using shapes = layout_detail::shapes<L, Hidden, Intermediate>;
  static constexpr weight_layout layout = L;
  swiglu::view<T, shapes::rows, shapes::cols> gate, up;
  swiglu::view<T, shapes::cols, shapes::rows> down;

  /// f(matrix) for each.
  template <class F>
  constexpr void each(const F& f) const {
    f(gate), f(up), f(down);
  }
  /// Views of no memory, for those who only ask for shapes.
  static weights_view without_memory(std::size_t hidden, std::size_t intermediate) {
    const extents<dynamic, dynamic> of_gate = shapes::of_gate(hidden, intermediate),
                                    of_down{of_gate.cols(), of_gate.rows()};
    return {{nullptr, of_gate}, {nullptr, of_gate}, {nullptr, of_down}};
  }
  /// Read-only views of the same weights.
  operator weights_view<const T, Hidden, Intermediate, L>() const requires(!std::is_const_v<T>) {
    return {gate, up, down};
  }
};
/// The same with gate and up in one matrix: gate_of<L> and up_of<L> are its halves.
template <class T, std::size_t Hidden, std::size_t Intermediate, weight_layout L>
  requires(L.is_packed())
struct weights_view<T, Hidden, Intermediate, L> {
  using shapes = layout_detail::shapes<L, Hidden, Intermediate>;
  static constexpr weight_layout layout = L;
  swiglu::view<T, shapes::pair_rows, shapes::pair_cols> gate_up;
  swiglu::view<T, shapes::cols, shapes::rows> down;

  template <class F>
  constexpr void each(const F& f) const {
    f(gate_up), f(down);
  }
  static weights_view without_memory(std::size_t hidden, std::size_t intermediate) {
    const extents<dynamic, dynamic> of_gate = shapes::of_gate(hidden, intermediate),
                                    of_down{of_gate.cols(), of_gate.rows()};
    const extents<dynamic, dynamic> of_both{of_gate.rows() * (L.is_out_in() ? 2 : 1),
                                            of_gate.cols() * (L.is_out_in() ? 1 : 2)};
    return {{nullptr, of_both}, {nullptr, of_down}};
  }
  operator weights_view<const T, Hidden, Intermediate, L>() const requires(!std::is_const_v<T>) {
    return {gate_up, down};
  }
};

/// Owned weights, or gradients, in layout L: zero at first. w1, w3, w2: other names of gate, up, down.
template <real T, std::size_t Hidden, std::size_t Intermediate, weight_layout L = in_out>
struct weights {
  using shapes = layout_detail::shapes<L, Hidden, Intermediate>;
  static constexpr weight_layout layout = L;
  tensor<T, shapes::rows, shapes::cols> gate, up;
  tensor<T, shapes::cols, shapes::rows> down;

  auto& w1() { return gate; }
  auto& w1() const { return gate; }
  auto& w3() { return up; }
  auto& w3() const { return up; }
  auto& w2() { return down; }
  auto& w2() const { return down; }

  weights_view<T, Hidden, Intermediate, L> view() { return {gate.view(), up.view(), down.view()}; }
  weights_view<const T, Hidden, Intermediate, L> view() const { return {gate.view(), up.view(), down.view()}; }
  operator weights_view<T, Hidden, Intermediate, L>() { return view(); }
  operator weights_view<const T, Hidden, Intermediate, L>() const { return view(); }
};
/// The same with gate and up in one matrix, of which w1 and w3 are views.
template <real T, std::size_t Hidden, std::size_t Intermediate, weight_layout L>
  requires(L.is_packed())
struct weights<T, Hidden, Intermediate, L> {
  using shapes = layout_detail::shapes<L, Hidden, Intermediate>;
  static constexpr weight_layout layout = L;
  tensor<T, shapes::pair_rows, shapes::pair_cols> gate_up;
  tensor<T, shapes::cols, shapes::rows> down;

  auto w1() { return gate_of<L>(*this); }
  auto w1() const { return gate_of<L>(*this); }
  auto w3() { return up_of<L>(*this); }
  auto w3() const { return up_of<L>(*this); }
  auto& w2() { return down; }
  auto& w2() const { return down; }

  weights_view<T, Hidden, Intermediate, L> view() { return {gate_up.view(), down.view()}; }
  weights_view<const T, Hidden, Intermediate, L> view() const { return {gate_up.view(), down.view()}; }
  operator weights_view<T, Hidden, Intermediate, L>() { return view(); }
  operator weights_view<const T, Hidden, Intermediate, L>() const { return view(); }
};

/// How a backward pass writes the weight gradients, said by name: overwrite(g) or accumulate(g).
template <class Gradients, bool Accumulate>
struct gradient_target {
  Gradients& to;
};

namespace params_detail {
template <class G>
concept gradient_struct = requires(G& g) {
  g.gate, g.up, g.down;
}
|| requires(G& g) { g.gate_up, g.down; };
}  // namespace params_detail

/// The gradients of this call replace what `g` holds. The default.
template <params_detail::gradient_struct G>
gradient_target<G, false> overwrite(G& g) {
  return {g};
}
/// The gradients of this call, summed over the data axis first if that is asked for, are added to what `g` holds.
template <params_detail::gradient_struct G>
gradient_target<G, true> accumulate(G& g) {
  return {g};
}

/// What happens over an axis to a tensor of which every rank of the axis holds a part of the sum. A choice for each of
/// out (tensor axis), grad_x (tensor axis) and the weight gradients (data axis).
enum class reduction {
  unreduced,       ///< each rank keeps its part: the caller sums later, or accumulates micro-batches first
  all_reduce,      ///< every rank gets the sum
  reduce_scatter,  ///< rank r gets rows r * n / size ... of the sum (of each weight gradient its own rows)
  /// Activations only: each rank of the axis has its share of the tokens, in and out. x is gathered before the first
  /// product and out scattered after the last; in backward x and grad_out are gathered and grad_x is scattered
  /// (sequence parallelism: Korthikanti et al. 2022). tokens of saved and workspace are those of all shares.
  sequence_parallel
};

/// Whether a rank gets only its share of the rows.
constexpr bool scatters(reduction how) {
  return how == reduction::reduce_scatter || how == reduction::sequence_parallel;
}

/// The choices of one backward pass.
struct reductions {
  reduction grad_x = reduction::all_reduce;
  reduction grad_w = reduction::all_reduce;
};

}  // namespace swiglu

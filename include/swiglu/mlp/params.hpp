// SPDX-License-Identifier: MIT
#pragma once

// The shape of the layer and its parameters. Everywhere gate is w1, up is w3, down is w2:
//
//     h1 = x gate    h3 = x up    h = silu(h1) h3    out = h down

#include <cstddef>
#include <type_traits>

#include <swiglu/tensor.hpp>

namespace swiglu {

/// The shape of a layer. Each of `tensor_parallel` ranks holds intermediate / tensor_parallel columns of gate and up
/// and as many rows of down. `tokens` may be fixed at compile time; by default every call brings its own number.
struct dims {
  std::size_t hidden, intermediate;
  std::size_t tensor_parallel = 1;
  std::size_t tokens = dynamic;

  constexpr std::size_t local_intermediate() const { return intermediate / tensor_parallel; }
  friend constexpr bool operator==(const dims&, const dims&) = default;
};

/// Borrowed weights, or gradients: gate, up [hidden, intermediate], down [intermediate, hidden]; any row pitch.
template <class T, std::size_t Hidden, std::size_t Intermediate>
struct weights_view {
  view<T, Hidden, Intermediate> gate, up;
  view<T, Intermediate, Hidden> down;

  /// Read-only views of the same weights.
  operator weights_view<const T, Hidden, Intermediate>() const requires(!std::is_const_v<T>) {
    return {gate, up, down};
  }
};

/// Owned weights, or gradients: zero at first.
template <real T, std::size_t Hidden, std::size_t Intermediate>
struct weights {
  tensor<T, Hidden, Intermediate> gate, up;
  tensor<T, Intermediate, Hidden> down;

  weights_view<T, Hidden, Intermediate> view() { return {gate.view(), up.view(), down.view()}; }
  weights_view<const T, Hidden, Intermediate> view() const { return {gate.view(), up.view(), down.view()}; }
  operator weights_view<T, Hidden, Intermediate>() { return view(); }
  operator weights_view<const T, Hidden, Intermediate>() const { return view(); }
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
};
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

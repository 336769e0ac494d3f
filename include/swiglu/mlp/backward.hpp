// SPDX-License-Identifier: MIT
#pragma once

// The backward pass of one rank, as kernels, under every schedule, in two halves: after the first grad_x (or its two
// branches) is complete and may travel while the second computes the weight gradients. With g_h = grad_out down^T
// (never stored by the fused cut):
//
//     g_h1 = g_h h3 silu'(h1)      g_h3 = g_h silu(h1)      grad_x = g_h1 gate^T + g_h3 up^T
//     g_gate = x^T g_h1            g_up = x^T g_h3          g_down = h^T grad_out

#include <utility>

#include <swiglu/mlp/forward.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

namespace impl {

/// silu'(h1), from h1 alone or with the sigmoid that the schedule has in memory.
template <schedule S, class Values>
auto silu_grad_of_h1(const Values& v) {
  if constexpr (S.cut == schedule::kernels::unfused)
    return map([](auto x, auto sigmoid_of_x) { return silu_grad(x, sigmoid_of_x); }, v.h1(), v.sigmoid());
  else if constexpr (S.stores_sigmoid())
    return map(
        [](auto x, auto s, auto c) {
          return silu_grad(x, sigmoid_pair<decltype(x)>{s, c});
        },
        v.h1(), v.sigmoid(), v.complement());
  else
    return silu_grad(v.h1());
}

}  // namespace impl

/// g_h1, g_h3, and what the schedule computes again: in the epilogue of one contraction, in one pass, or each alone.
template <schedule S, class On, class G, class W, class Values, class Workspace>
void gradient_kernels_of_h(On on, const G& grad_out, const W& w, const Values& v, Workspace& ws) {
  constexpr bool compute_h = !S.save_h && !S.checkpoint;
  const auto h3 = v.h3();
  const auto gradients_in_one = [&](const auto& g_h) {
    const auto to_g_h1 = noalias(ws.g_h1()) <<= g_h * (h3 * impl::silu_grad_of_h1<S>(v));
    const auto to_g_h3 = noalias(ws.g_h3()) <<= g_h * impl::silu_of_h1<S>(v);
    if constexpr (compute_h)
      evaluate(on, to_g_h1, to_g_h3, noalias(v.h()) <<= impl::silu_of_h1<S>(v) * h3);
    else
      evaluate(on, to_g_h1, to_g_h3);
  };
  if constexpr (S.cut == schedule::kernels::fused) {
    gradients_in_one(product<"g_h">(grad_out, transpose(w.down)));
  } else {
    const auto g_h = ws.g_h();
    evaluate(on, noalias(g_h) <<= product(grad_out, transpose(w.down)));  // %dot.16
    if constexpr (S.cut == schedule::kernels::elementwise) {
      gradients_in_one(g_h);
    } else {
      if constexpr (!S.keeps_sigmoid() && !S.checkpoint) evaluate(on, noalias(v.sigmoid()) <<= sigmoid(v.h1()));
      if constexpr (compute_h) evaluate(on, noalias(v.h()) <<= impl::silu_of_h1<S>(v) * h3);
      const auto g_h1 = g_h * h3 * impl::silu_grad_of_h1<S>(v);
      const auto g_h3 = g_h * impl::silu_of_h1<S>(v);
      // %add_bitcast_fusion, %copy_bitcast_fusion.1 and .2, %multiply_bitcast_fusion: the transposes computed again.
      evaluate(on, noalias(ws.g_h1()) <<= g_h1);
      if constexpr (!S.in_panels()) evaluate(on, noalias(ws.g_h3_transposed()) <<= transpose(g_h3));
      if constexpr (!S.in_panels()) evaluate(on, noalias(ws.g_h1_transposed()) <<= transpose(g_h1));
      evaluate(on, noalias(ws.g_h3()) <<= g_h3);
    }
  }
}

/// grad_x [tokens, hidden], or where the schedule has them apart its two branches in the workspace.
template <class On, class G, class X, class W, real T, schedule S, std::size_t Rows, std::size_t Hidden,
          std::size_t Cols, class GradX>
void backward_kernels_of_x(On on, const G& grad_out, const X& x, const W& w,
                           const layer_values<T, S, true, Rows, Cols>& s, layer_workspace<T, S, Rows, Hidden, Cols>& ws,
                           const GradX& grad_x) {
  const hidden_values v{s, ws};
  if constexpr (S.checkpoint) hidden_kernels<S>(on, x, w, v);
  if constexpr (S.in_panels()) {
    evaluate(on, noalias(ws.grad_out()) <<= grad_out);
    gradient_kernels_of_h<S>(on, ws.grad_out(), w, v, ws);
  } else {
    evaluate(on, noalias(ws.grad_out_transposed()) <<= transpose(grad_out));  // %copy_bitcast_fusion
    gradient_kernels_of_h<S>(on, grad_out, w, v, ws);
    if constexpr (S.cut != schedule::kernels::unfused) {
      evaluate(on, noalias(ws.g_h1_transposed()) <<= transpose(ws.g_h1()));
      evaluate(on, noalias(ws.g_h3_transposed()) <<= transpose(ws.g_h3()));
    }
  }
  const auto from_h1 = product(ws.g_h1(), transpose(w.gate)), from_h3 = product(ws.g_h3(), transpose(w.up));
  if constexpr (S.grad_x == schedule::branches::one_contraction) {
    evaluate(on, noalias(grad_x) <<= from_h1 + from_h3);
  } else {  // %dot.20, %dot.18
    evaluate(on, noalias(ws.g_x_h1()) <<= from_h1);
    evaluate(on, noalias(ws.g_x_h3()) <<= from_h3);
  }
}

/// The weight gradients. With panels nothing but x is packed, or copied into panels: the activations are panels. The
/// destinations say whether they are overwritten or accumulated.
template <class On, class X, real T, schedule S, std::size_t Rows, std::size_t Hidden, std::size_t Cols, class Gate,
          class Up, class Down>
void backward_kernels_of_w(On on, const X& x, const layer_values<T, S, true, Rows, Cols>& s,
                           layer_workspace<T, S, Rows, Hidden, Cols>& ws, const Gate& gate, const Up& up,
                           const Down& down) {
  const auto h = hidden_values{s, ws}.h();
  if constexpr (!S.in_panels()) {  // %dot.27, %dot.28, %dot.29
    evaluate(on, noalias(gate) <<= product(transpose(x), transpose(ws.g_h1_transposed())));
    evaluate(on, noalias(up) <<= product(transpose(x), transpose(ws.g_h3_transposed())));
    evaluate(on, noalias(down) <<= product(transpose(h), transpose(ws.grad_out_transposed())));
  } else {
    if constexpr (S.cut == schedule::kernels::fused && !impl::writes_transpose<Gate>) {
      evaluate(on, noalias(gate) <<= product<"g_gate">(transpose(x), ws.g_h1()),
               noalias(up) <<= product<"g_up">(transpose(x), ws.g_h3()));
    } else {  // also where the transposes are written, whose products share no left operand
      evaluate(on, noalias(gate) <<= product(transpose(x), ws.g_h1()));
      evaluate(on, noalias(up) <<= product(transpose(x), ws.g_h3()));
    }
    evaluate(on, noalias(down) <<= product(transpose(h), ws.grad_out()));
  }
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

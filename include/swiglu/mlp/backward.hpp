// SPDX-License-Identifier: MIT
#pragma once

// The backward pass of one rank, as kernels, in two halves: after the first grad_x is complete and may travel while the
// second computes the weight gradients. With g_h = grad_out down^T (never stored by the fused schedules):
//
//     g_h1 = g_h h3 silu'(h1)      g_h3 = g_h silu(h1)      grad_x = g_h1 gate^T + g_h3 up^T
//     g_gate = x^T g_h1            g_up = x^T g_h3          g_down = h^T grad_out

#include <swiglu/expr/evaluate.hpp>
#include <swiglu/mlp/memory.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// g_h1, g_h3 (and h, if it was not saved) in the epilogue of one contraction, then grad_x in another whose
/// accumulators add the two branches.
template <class On, class G, class W, real T, bool SaveH, class GradX>
void backward_kernels_of_x(On on, const G& grad_out, const W& w, const fused_saved<T, SaveH>& s,
                           fused_workspace<T, SaveH>& ws, const GradX& grad_x) {
  evaluate(on, noalias(ws.grad_out) <<= grad_out);
  const auto h1 = s.h1(), h3 = s.h3();
  const auto g_h = product<"g_h">(ws.grad_out, transpose(w.down));
  const auto to_g_h1 = noalias(ws.g_h1()) <<= g_h * (h3 * silu_grad(h1));
  const auto to_g_h3 = noalias(ws.g_h3()) <<= g_h * silu(h1);
  if constexpr (SaveH)
    evaluate(on, to_g_h1, to_g_h3);
  else
    evaluate(on, to_g_h1, to_g_h3, noalias(ws.h) <<= silu(h1) * h3);
  evaluate(on, noalias(grad_x) <<= product(ws.g_h1(), transpose(w.gate)) + product(ws.g_h3(), transpose(w.up)));
}

/// The weight gradients. Apart from the copy of x into panels nothing is packed: the activations are panels. The
/// destinations say whether they are overwritten or accumulated.
template <class On, class X, real T, bool SaveH, class Gate, class Up, class Down>
void backward_kernels_of_w(On on, const X& x, const fused_saved<T, SaveH>& s, fused_workspace<T, SaveH>& ws,
                           const Gate& gate, const Up& up, const Down& down) {
  evaluate(on, noalias(gate) <<= product<"g_gate">(transpose(x), ws.g_h1()),
           noalias(up) <<= product<"g_up">(transpose(x), ws.g_h3()));
  evaluate(on, noalias(down) <<= product(transpose(h_panels(s, std::as_const(ws))), ws.grad_out));
}

/// The same of a small layer.
template <class On, class G, class W, real T, std::size_t Rows, std::size_t Hidden, std::size_t Cols, class GradX>
void backward_kernels_of_x(On on, const G& grad_out, const W& w, const small_saved<T, Rows, Cols>& s,
                           small_workspace<T, Rows, Hidden, Cols>& ws, const GradX& grad_x) {
  evaluate(on, noalias(ws.grad_out.view()) <<= grad_out);
  const auto g_h = product<"g_h">(ws.grad_out.view(), transpose(w.down));
  const auto g_h1 = ws.g_h1.view(), g_h3 = ws.g_h3.view();
  evaluate(on, noalias(g_h1) <<= g_h * s.slope.view(), noalias(g_h3) <<= g_h * s.silu.view());
  evaluate(on, noalias(grad_x) <<= product(g_h1, transpose(w.gate)) + product(g_h3, transpose(w.up)));
}
template <class On, class X, real T, std::size_t Rows, std::size_t Hidden, std::size_t Cols, class Gate, class Up,
          class Down>
void backward_kernels_of_w(On on, const X& x, const small_saved<T, Rows, Cols>& s,
                           small_workspace<T, Rows, Hidden, Cols>& ws, const Gate& gate, const Up& up,
                           const Down& down) {
  evaluate(on, noalias(gate) <<= product<"g_gate">(transpose(x), ws.g_h1.view()),
           noalias(up) <<= product<"g_up">(transpose(x), ws.g_h3.view()));
  evaluate(on, noalias(down) <<= product(transpose(s.h.view()), ws.grad_out.view()));
}

/// The same, an operation a kernel, in the order of the program: %copy_bitcast_fusion, %dot.16, %add_bitcast_fusion,
/// %copy_bitcast_fusion.1 and .2, %multiply_bitcast_fusion, %dot.20, %dot.18. g_h1 and g_h3 are computed twice each,
/// once transposed. The two branches of grad_x stay apart: they are added only after the all-reduce.
template <class On, class G, class W, real T, std::size_t Rows, std::size_t Hidden, std::size_t Cols>
void backward_kernels_of_x(On on, const G& grad_out, const W& w, const per_operation_saved<T, Rows, Cols>& s,
                           per_operation_workspace<T, Rows, Hidden, Cols>& ws) {
  const auto h1 = s.h1.view(), h3 = s.h3.view(), s1 = s.sigmoid.view();
  const auto g_h = ws.g_h.view();
  const auto silu_of = [](auto v, auto sigmoid_of_v) { return silu(v, sigmoid_of_v); };
  const auto silu_grad_of = [](auto v, auto sigmoid_of_v) { return silu_grad(v, sigmoid_of_v); };
  const auto g_h1 = g_h * h3 * map(silu_grad_of, h1, s1);
  const auto g_h3 = g_h * map(silu_of, h1, s1);
  evaluate(on, noalias(ws.grad_out_transposed.transposed_view()) <<= transpose(grad_out));
  evaluate(on, noalias(g_h) <<= product(grad_out, transpose(w.down)));
  evaluate(on, noalias(ws.g_h1.view()) <<= g_h1);
  evaluate(on, noalias(ws.g_h3_transposed.transposed_view()) <<= transpose(g_h3));
  evaluate(on, noalias(ws.g_h1_transposed.transposed_view()) <<= transpose(g_h1));
  evaluate(on, noalias(ws.g_h3.view()) <<= g_h3);
  evaluate(on, noalias(ws.g_x_h1.view()) <<= product(ws.g_h1.view(), transpose(w.gate)));
  evaluate(on, noalias(ws.g_x_h3.view()) <<= product(ws.g_h3.view(), transpose(w.up)));
}

/// %dot.27, %dot.28, %dot.29.
template <class On, class X, real T, std::size_t Rows, std::size_t Hidden, std::size_t Cols, class Gate, class Up,
          class Down>
void backward_kernels_of_w(On on, const X& x, const per_operation_saved<T, Rows, Cols>& s,
                           per_operation_workspace<T, Rows, Hidden, Cols>& ws, const Gate& gate, const Up& up,
                           const Down& down) {
  evaluate(on, noalias(gate) <<= product(transpose(x), transpose(ws.g_h1_transposed.transposed_view())));
  evaluate(on, noalias(up) <<= product(transpose(x), transpose(ws.g_h3_transposed.transposed_view())));
  evaluate(on, noalias(down) <<= product(transpose(s.h.view()), transpose(ws.grad_out_transposed.transposed_view())));
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

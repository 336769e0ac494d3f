// SPDX-License-Identifier: MIT
#pragma once

// Small layers of static shape under the fused schedules: memory and kernels of their own, since at this size an
// exponential is not small beside the products, nor a copy of an operand.

#include <algorithm>
#include <cstddef>

#include <swiglu/expr/evaluate.hpp>
#include <swiglu/gemm/blocking.hpp>
#include <swiglu/mlp/memory.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// Whether a layer of static shape is small: the operands of each of its contractions fit into half of L2. Small layers
/// keep their activations row-major, in static shapes, from which expr/direct.hpp makes kernels without packing or
/// blocking (of interleaved weights it makes none).
template <real T>
constexpr bool is_small(std::size_t tokens, std::size_t hidden, std::size_t intermediate) {
  if (tokens == dynamic || tokens == 0) return false;
  // Each contraction reads at most two pairs of these; the most per matrix, padding included.
  const auto padded = [](std::size_t n) { return round_up(n, pack<T>::size); };
  const std::size_t t = padded(tokens), h = padded(hidden), i = padded(intermediate);
  return 2 * std::max({t * h + h * i, t * i + h * i, t * h + t * i}) * sizeof(T) <= default_caches.l2 / 2;
}

/// Whether a schedule keeps its mathematics in small layers in the memory below: the fused ones that keep all or h.
template <schedule S>
inline constexpr bool is_fused_small = S.cut == schedule::kernels::fused && !S.save_sigmoid && !S.checkpoint &&
                                       S.in_panels() && S.grad_x == schedule::branches::one_contraction;

/// saved of the fused schedules of a small layer: what the epilogue of backward multiplies by, so that the exponential,
/// which is not small beside the products here, is computed once; and h, which costs no more than to compute it again.
/// Rows, Cols: tokens and the intermediate extent.
template <real T, std::size_t Rows, std::size_t Cols>
struct small_saved {
  row_major<T, Rows, Cols> silu, slope, h;  // silu(h1), h3 silu'(h1), h

  small_saved(std::size_t tokens, std::size_t intermediate, storage memory = storage::owned)
      : silu(tokens, intermediate, memory), slope(tokens, intermediate, memory), h(tokens, intermediate, memory) {}
  void set_tokens(std::size_t tokens) {
    for (auto* m : {&silu, &slope, &h}) m->set_rows(tokens);
  }
  std::size_t tokens() const { return h.rows(); }
  std::size_t capacity() const { return h.capacity(); }
  std::size_t bytes() const { return 3 * h.bytes(); }
};

/// workspace of the fused schedules of a small layer. grad_out is copied, like that of every layer, because grad_x may
/// be its memory.
template <real T, std::size_t Rows, std::size_t Hidden, std::size_t Cols>
struct small_workspace {
  row_major<T, Rows, Hidden> grad_out;
  row_major<T, Rows, Cols> g_h1, g_h3;

  small_workspace(std::size_t tokens, std::size_t hidden, std::size_t intermediate, storage memory = storage::owned)
      : grad_out(tokens, hidden, memory), g_h1(tokens, intermediate, memory), g_h3(tokens, intermediate, memory) {}
  void set_tokens(std::size_t tokens) {
    grad_out.set_rows(tokens);
    for (auto* m : {&g_h1, &g_h3}) m->set_rows(tokens);
  }
  std::size_t capacity() const { return g_h1.capacity(); }
  std::size_t bytes() const { return grad_out.bytes() + 2 * g_h1.bytes(); }
};

/// forward.hpp for a small layer, which keeps silu(h1) and the slope h3 silu'(h1) instead of h1 and h3.
template <class On, class X, class W, real T, std::size_t Rows, std::size_t Hidden, std::size_t Cols, class Out>
void forward_kernels(On on, const X& x, const W& w, small_saved<T, Rows, Cols>& s,
                     small_workspace<T, Rows, Hidden, Cols>&, const Out& out) {
  const auto gate = product<"h1">(x, w.gate);
  const auto up = product<"h3">(x, w.up);
  evaluate(on, noalias(s.silu.view()) <<= silu(gate), noalias(s.slope.view()) <<= up * silu_grad(gate),
           noalias(s.h.view()) <<= silu(gate) * up);
  evaluate(on, noalias(out) <<= product(s.h.view(), w.down));
}

/// backward.hpp for a small layer.
template <class On, class G, class X, class W, real T, std::size_t Rows, std::size_t Hidden, std::size_t Cols,
          class GradX>
void backward_kernels_of_x(On on, const G& grad_out, const X&, const W& w, const small_saved<T, Rows, Cols>& s,
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

}  // namespace SWIGLU_ABI
}  // namespace swiglu

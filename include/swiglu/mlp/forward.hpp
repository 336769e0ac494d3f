// SPDX-License-Identifier: MIT
#pragma once

// The forward pass of one rank, as kernels.

#include <swiglu/expr/evaluate.hpp>
#include <swiglu/mlp/memory.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// out [tokens, hidden] = (silu(x gate) * (x up)) down in two contractions.
template <class On, class X, class W, real T, bool SaveH, class Out>
void forward_kernels(On on, const X& x, const W& w, fused_saved<T, SaveH>& s, fused_workspace<T, SaveH>& ws,
                     const Out& out) {
  const auto h = h_panels(s, ws);
  const auto gate = product<"h1">(x, w.gate);
  const auto up = product<"h3">(x, w.up);
  evaluate(on, noalias(s.h1()) <<= gate, noalias(s.h3()) <<= up, noalias(h) <<= silu(gate) * up);
  evaluate(on, noalias(out) <<= product(h, w.down));
}

/// The same of a small layer, which keeps silu(h1) and the slope h3 silu'(h1) instead of h1 and h3.
template <class On, class X, class W, real T, std::size_t Rows, std::size_t Hidden, std::size_t Cols, class Out>
void forward_kernels(On on, const X& x, const W& w, small_saved<T, Rows, Cols>& s,
                     small_workspace<T, Rows, Hidden, Cols>&, const Out& out) {
  const auto gate = product<"h1">(x, w.gate);
  const auto up = product<"h3">(x, w.up);
  evaluate(on, noalias(s.silu.view()) <<= silu(gate), noalias(s.slope.view()) <<= up * silu_grad(gate),
           noalias(s.h.view()) <<= silu(gate) * up);
  evaluate(on, noalias(out) <<= product(s.h.view(), w.down));
}

/// The same, an operation a kernel: %dot.12, %dot.13, %add_divide_fusion, %multiply_bitcast_fusion.1, %dot.15.
template <class On, class X, class W, real T, std::size_t Rows, std::size_t Hidden, std::size_t Cols, class Out>
void forward_kernels(On on, const X& x, const W& w, per_operation_saved<T, Rows, Cols>& s,
                     per_operation_workspace<T, Rows, Hidden, Cols>&, const Out& out) {
  const auto h1 = s.h1.view(), h3 = s.h3.view(), s1 = s.sigmoid.view(), h = s.h.view();
  evaluate(on, noalias(h1) <<= product(x, w.gate));
  evaluate(on, noalias(h3) <<= product(x, w.up));
  evaluate(on, noalias(s1) <<= sigmoid(h1));
  const auto silu_of = [](auto v, auto sigmoid_of_v) { return silu(v, sigmoid_of_v); };
  evaluate(on, noalias(h) <<= map(silu_of, h1, s1) * h3);
  evaluate(on, noalias(out) <<= product(h, w.down));
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

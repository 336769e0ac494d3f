// SPDX-License-Identifier: MIT
#pragma once

// The forward pass of one rank, as kernels, under every schedule.

#include <swiglu/expr/evaluate.hpp>
#include <swiglu/mlp/memory.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

namespace impl {
/// silu(h1), from h1 alone or with the sigmoid that the schedule has in memory.
template <schedule S, class Values>
auto silu_of_h1(const Values& v) {
  if constexpr (S.stores_sigmoid())
    return map([](auto x, auto sigmoid_of_x) { return silu(x, sigmoid_of_x); }, v.h1(), v.sigmoid());
  else
    return silu(v.h1());
}
}  // namespace impl

/// h1 = x gate, h3 = x up, h = silu(h1) h3 and, where the schedule stores it, the sigmoid.
template <schedule S, class On, class X, class W, class Values>
void hidden_kernels(On on, const X& x, const W& w, const Values& v) {
  const auto h = v.h();
  if constexpr (S.cut == schedule::kernels::fused) {
    const auto gate = product<"h1">(x, w.gate);
    const auto up = product<"h3">(x, w.up);
    if constexpr (S.keeps_sigmoid())
      evaluate(on, noalias(v.h1()) <<= gate, noalias(v.h3()) <<= up, noalias(v.sigmoid()) <<= sigmoid(gate),
               noalias(v.complement()) <<= sigmoid_complement(gate), noalias(h) <<= silu(gate) * up);
    else
      evaluate(on, noalias(v.h1()) <<= gate, noalias(v.h3()) <<= up, noalias(h) <<= silu(gate) * up);
  } else {  // %dot.12, %dot.13, %add_divide_fusion, %multiply_bitcast_fusion.1
    const auto h1 = v.h1(), h3 = v.h3();
    evaluate(on, noalias(h1) <<= product(x, w.gate));
    evaluate(on, noalias(h3) <<= product(x, w.up));
    if constexpr (S.cut == schedule::kernels::unfused) {
      evaluate(on, noalias(v.sigmoid()) <<= sigmoid(h1));
      evaluate(on, noalias(h) <<= impl::silu_of_h1<S>(v) * h3);
    } else if constexpr (S.keeps_sigmoid()) {
      evaluate(on, noalias(v.sigmoid()) <<= sigmoid(h1), noalias(v.complement()) <<= sigmoid_complement(h1),
               noalias(h) <<= silu(h1) * h3);
    } else {
      evaluate(on, noalias(h) <<= silu(h1) * h3);
    }
  }
}

/// out [tokens, hidden] = (silu(x gate) * (x up)) down.
template <class On, class X, class W, real T, schedule S, std::size_t Rows, std::size_t Hidden, std::size_t Cols,
          class Out>
void forward_kernels(On on, const X& x, const W& w, layer_values<T, S, true, Rows, Cols>& s,
                     layer_workspace<T, S, Rows, Hidden, Cols>& ws, const Out& out) {
  const hidden_values v{s, ws};
  if constexpr (S.checkpoint && S.cut == schedule::kernels::fused)  // nothing else is needed before backward
    evaluate(on, noalias(v.h()) <<= silu(product<"h1">(x, w.gate)) * product<"h3">(x, w.up));
  else
    hidden_kernels<S>(on, x, w, v);
  evaluate(on, noalias(out) <<= product(v.h(), w.down));  // %dot.15
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

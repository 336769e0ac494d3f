// SPDX-License-Identifier: MIT
#pragma once

// Weights from one layout into another, element by element.

#include <cstddef>

#include <swiglu/mlp/params.hpp>

namespace test {

/// f(element in layout L, the same element as [in, out]).
template <swiglu::weight_layout L, class Laid, class Plain, class F>
void each_weight(Laid& laid, Plain& plain, F f) {
  const auto pairs = [&](const auto& m, auto& in_out) {
    for (std::size_t r = 0; r < in_out.rows(); ++r)
      for (std::size_t c = 0; c < in_out.cols(); ++c)
        L.is_out_in() ? f(m(c, r), in_out(r, c)) : f(m(r, c), in_out(r, c));
  };
  pairs(swiglu::gate_of<L>(laid), plain.gate);
  pairs(swiglu::up_of<L>(laid), plain.up);
  pairs(swiglu::down_of<L>(laid), plain.down);
}

template <swiglu::weight_layout L, class T, std::size_t H, std::size_t I>
swiglu::weights<T, H, I, L> to_layout(const swiglu::weights<T, H, I>& plain) {
  swiglu::weights<T, H, I, L> laid;
  each_weight<L>(laid, plain, [](T& to, T from) { to = from; });
  return laid;
}
template <swiglu::weight_layout L, class T, std::size_t H, std::size_t I>
void from_layout(const swiglu::weights<T, H, I, L>& laid, swiglu::weights<T, H, I>& plain) {
  each_weight<L>(laid, plain, [](T from, T& to) { to = from; });
}
template <swiglu::weight_layout L, class T, std::size_t H, std::size_t I>
swiglu::weights<T, H, I> as_in_out(const swiglu::weights<T, H, I, L>& laid) {
  swiglu::weights<T, H, I> plain;
  from_layout<L>(laid, plain);
  return plain;
}

}  // namespace test

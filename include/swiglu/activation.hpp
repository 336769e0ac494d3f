// SPDX-License-Identifier: MIT
#pragma once

// The activation and its derivative, each formula once, generic over a scalar and a pack.
//
//     sigmoid(x)   = 1 / (1 + e^-x)
//     silu(x)      = x sigmoid(x)                                    (Elfwing, Uchibe, Doya 2018; "swish")
//     silu_grad(x) = sigmoid(x) (1 + x (1 - sigmoid(x)))

#include <limits>

#include <swiglu/exp.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// sigmoid(x) and its complement sigmoid(-x) = 1 - sigmoid(x), both to full relative accuracy.
template <number V>
struct sigmoid_pair {
  V sigmoid, complement;
};

/// Both from one exponential of -|x|, which cannot overflow. The complement is e * sigmoid, never 1 - sigmoid, which
/// would lose every digit where sigmoid is near 1.
template <number V>
[[gnu::always_inline]] inline sigmoid_pair<V> sigmoid_and_complement(V x) {
  const V e = exp_of_nonpositive(-abs(x));
  const V large = reciprocal(V(scalar_t<V>(1)) + e);  // sigmoid(|x|)
  const V small = e * large;                          // sigmoid(-|x|)
  return {if_negative(x, small, large), if_negative(x, large, small)};
}

/// In [0, 1]; NaN stays NaN.
template <number V>
[[gnu::always_inline]] inline V sigmoid(V x) {
  return sigmoid_and_complement(x).sigmoid;
}

/// silu where sigmoid(x) is at hand. silu(-inf) = 0, silu(+inf) = +inf.
template <number V>
[[gnu::always_inline]] inline V silu(V x, V sigmoid_of_x) {
  return at_least(x, V(std::numeric_limits<scalar_t<V>>::lowest())) * sigmoid_of_x;  // no -inf * 0
}

/// Within 4 ULP on [-87, inf).
template <number V>
[[gnu::always_inline]] inline V silu(V x) {
  return silu(x, sigmoid(x));
}

/// silu' where sigmoid(x) and its complement are at hand. silu'(-inf) = 0, silu'(+inf) = 1.
template <number V>
[[gnu::always_inline]] inline V silu_grad(V x, sigmoid_pair<V> s) {
  using limits = std::numeric_limits<scalar_t<V>>;
  const V finite = at_most(at_least(x, V(limits::lowest())), V(limits::max()));  // no inf * 0
  return s.sigmoid * fma(finite, s.complement, V(scalar_t<V>(1)));
}

/// silu' where only sigmoid(x) was kept: 1 - sigmoid by subtraction, as XLA does it. Absolute error below |x| eps.
template <number V>
[[gnu::always_inline]] inline V silu_grad(V x, V sigmoid_of_x) {
  return silu_grad(x, sigmoid_pair<V>{sigmoid_of_x, V(scalar_t<V>(1)) - sigmoid_of_x});
}

/// Within 8 ULP away from its root near -1.2785, within 4 eps (absolute) there.
template <number V>
[[gnu::always_inline]] inline V silu_grad(V x) {
  return silu_grad(x, sigmoid_and_complement(x));
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

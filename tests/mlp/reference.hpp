// SPDX-License-Identifier: MIT
#pragma once

// The layer in double, by plain loops, and with every value a bound on how far the layer's own may be from it. The
// bounds follow the rounding errors through the formulas to first order. That of a sum of K terms is the smaller of
// Higham's (K + 1) u, which always holds, and 6 sqrt(K) u, which fails once in 10^7 sums of independently rounded terms
// (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019).

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "support/oracle.hpp"

namespace test {

/// Numbers, and by how much those of the layer may differ.
struct estimate {
  matrix value, error;
};

/// Arithmetic with the rounding of T.
template <class T>
struct rounded {
  static constexpr double unit = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;

  static estimate exact(const matrix& m) { return {m, matrix(m.rows(), m.cols())}; }
  static estimate transposed(const estimate& a) { return {transpose(a.value), transpose(a.error)}; }

  static estimate multiply(const estimate& a, const estimate& b) {
    const double terms = static_cast<double>(a.value.cols());
    const double growth = 1.01 * unit * std::min(terms + 1, 6 * std::sqrt(terms));
    const matrix left = magnitudes(a.value), right = magnitudes(b.value);
    return {product(a.value, b.value),
            growth * product(left, right) + product(a.error, right + b.error) + product(left, b.error)};
  }
  static estimate times(const estimate& a, const estimate& b) {
    const auto times = [](double x, double y) { return x * y; };
    const matrix value = each(times, a.value, b.value);
    return {value, (2 * unit) * magnitudes(value) + each(times, a.error, magnitudes(b.value) + b.error) +
                       each(times, magnitudes(a.value), b.error)};
  }
  static estimate plus(const estimate& a, const estimate& b) {
    const matrix value = a.value + b.value;
    return {value, (2 * unit) * magnitudes(value) + a.error + b.error};
  }
  /// |silu'| <= 1.1.
  static estimate silu_of(const estimate& a) {
    const matrix value = each([](double x) { return silu(x); }, a.value);
    return {value, (12 * unit) * magnitudes(value) + 1.1 * a.error};
  }
  /// |silu''| <= 0.5. By subtraction, 1 - sigmoid has an absolute error, which x multiplies.
  static estimate silu_grad_of(const estimate& a) {
    return {each([](double x) { return silu_grad(x); }, a.value),
            each([](double x, double e) { return unit * (16 + 2 * std::abs(x)) + 0.5 * e; }, a.value, a.error)};
  }
};

/// Every value of a forward and backward pass.
struct reference {
  estimate h1, h3, h, out, g_h, g_h1, g_h3, grad_x, grad_gate, grad_up, grad_down;
};

/// `Weights`: anything with members gate, up, down.
template <class T, class Activation, class Weights, class Gradient>
reference reference_of(const Activation& x_in, const Weights& w, const Gradient& grad_out_in) {
  using in = rounded<T>;
  const estimate x = in::exact(to_matrix(x_in)), grad_out = in::exact(to_matrix(grad_out_in));
  const estimate gate = in::exact(to_matrix(w.gate)), up = in::exact(to_matrix(w.up)),
                 down = in::exact(to_matrix(w.down));
  reference r;
  r.h1 = in::multiply(x, gate);
  r.h3 = in::multiply(x, up);
  r.h = in::times(in::silu_of(r.h1), r.h3);
  r.out = in::multiply(r.h, down);

  r.g_h = in::multiply(grad_out, in::transposed(down));
  r.g_h1 = in::times(in::times(r.g_h, r.h3), in::silu_grad_of(r.h1));
  r.g_h3 = in::times(r.g_h, in::silu_of(r.h1));
  r.grad_x = in::plus(in::multiply(r.g_h1, in::transposed(gate)), in::multiply(r.g_h3, in::transposed(up)));
  r.grad_gate = in::multiply(in::transposed(x), r.g_h1);
  r.grad_up = in::multiply(in::transposed(x), r.g_h3);
  r.grad_down = in::multiply(in::transposed(r.h), grad_out);
  return r;
}

}  // namespace test

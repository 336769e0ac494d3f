// SPDX-License-Identifier: MIT
#pragma once

// Root-mean-square normalisation (Zhang, Sennrich 2019), row by row, n columns:
//
//     r = 1 / sqrt(mean(x^2) + epsilon)        y = r x gain
//
//     grad_gain = sum over rows of grad_y r x
//     grad_x    = r (grad_y gain) - x r^3 / n  sum(grad_y gain x)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include <swiglu/tensor.hpp>

#include "lane_sum.hpp"

namespace char_lm {

/// x, y [rows, n], gain [n]; r [rows] is kept for the way back.
template <class T>
void rms_norm(swiglu::view<const T, swiglu::dynamic, swiglu::dynamic> x, std::span<const T> gain,
              swiglu::view<T, swiglu::dynamic, swiglu::dynamic> y, std::span<T> r) {
  constexpr T epsilon = T(1e-5);
  const std::size_t n = gain.size();
  for (std::size_t row = 0; row < x.rows(); ++row) {
    const T* in = &x(row, 0);
    T* out = &y(row, 0);
    const T squares = lane_sum<T>(n, [&](std::size_t i) { return in[i] * in[i]; });
    r[row] = 1 / std::sqrt(squares / static_cast<T>(n) + epsilon);
    for (std::size_t i = 0; i < n; ++i) out[i] = r[row] * in[i] * gain[i];
  }
}

/// Overwrites grad_gain and ADDS to grad_x, which already holds what flows past the norm along the residual.
template <class T>
void rms_norm_backward(swiglu::view<const T, swiglu::dynamic, swiglu::dynamic> grad_y,
                       swiglu::view<const T, swiglu::dynamic, swiglu::dynamic> x, std::span<const T> gain,
                       std::span<const T> r, swiglu::view<T, swiglu::dynamic, swiglu::dynamic> grad_x,
                       std::span<T> grad_gain) {
  const std::size_t n = gain.size();
  std::ranges::fill(grad_gain, T(0));
  for (std::size_t row = 0; row < x.rows(); ++row) {
    const T *in = &x(row, 0), *g = &grad_y(row, 0);
    T* out = &grad_x(row, 0);
    const T scale = r[row];
    const T along = lane_sum<T>(n, [&](std::size_t i) { return g[i] * gain[i] * in[i]; });
    const T back = along * scale * scale * scale / static_cast<T>(n);
    for (std::size_t i = 0; i < n; ++i) {
      out[i] += scale * (g[i] * gain[i]) - back * in[i];
      grad_gain[i] += g[i] * scale * in[i];
    }
  }
}

}  // namespace char_lm

// SPDX-License-Identifier: MIT
#pragma once

// AdamW (Loshchilov, Hutter 2019) with a warm-up, a cosine and a clipped gradient. With g the clipped gradient, t = 1,
// 2, ...:
//
//     m = b1 m + (1 - b1) g                v = b2 v + (1 - b2) g^2
//     w = w - rate (decay w + (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon))

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>

#include <swiglu/expr/evaluate.hpp>

#include "lane_sum.hpp"
#include "parameters.hpp"

namespace char_lm {

/// The rate of step `step` of `steps` (from 0): up to `peak` over the first tenth, then down to a fiftieth of it.
inline double learning_rate(double peak, std::size_t step, std::size_t steps) {
  const double at = static_cast<double>(step), warm_up = static_cast<double>(steps) / 10;
  if (at + 1 < warm_up) return peak * (at + 1) / warm_up;
  const double past = std::max(0.0, (at - warm_up) / (static_cast<double>(steps) - warm_up));
  constexpr double lowest = 0.02;
  return peak * (lowest + (1 - lowest) * (1 + std::cos(std::numbers::pi * past)) / 2);
}

/// The Euclidean norm of the whole gradient. What every tensor rank has alike counts once; of what is cut, the parts of
/// all ranks are added up.
template <swiglu::real T, model_shape Shape, std::size_t TensorParallel, class Tensor>
double global_norm(parameters<T, Shape, TensorParallel>& gradients, Tensor& axis) {
  double alike = 0, parts = 0;
  for (const parameter<T>& p : gradients.list()) {
    (p.cut ? parts : alike) += lane_sum<double>(p.values.size(), [&](std::size_t i) {
      const double value = static_cast<double>(p.values[i]);
      return value * value;
    });
  }
  axis.all_reduce(std::span<double>(&parts, 1));
  return std::sqrt(alike + parts);
}

namespace detail {

/// Lane by lane: the library's pack has no square root.
struct square_root {
  template <class Pack>
  Pack operator()(Pack x) const {
    alignas(swiglu::alignment) std::array<typename Pack::value_type, Pack::size> lane;
    x.store(lane.data());
    for (auto& value : lane) value = std::sqrt(value);
    return Pack::load(lane.data());
  }
};

}  // namespace detail

/// The two moments of every parameter, of the same shape and cut the same way.
template <class Parameters>
class adamw {
 public:
  explicit adamw(std::size_t alphabet) : first(alphabet), second(alphabet) {}

  Parameters first, second;

  /// Step `step` (from 0). `scale` is what clipping multiplies the gradients by.
  void update(Parameters& weights, Parameters& gradients, std::size_t step, double rate, double decay, double scale) {
    constexpr double b1 = 0.9, b2 = 0.99, epsilon = 1e-8;
    const double t = static_cast<double>(step) + 1;
    const double unbias_m = 1 / (1 - std::pow(b1, t)), unbias_v = 1 / (1 - std::pow(b2, t));
    const auto all_w = weights.list(), all_g = gradients.list(), all_m = first.list(), all_v = second.list();
    for (std::size_t i = 0; i < all_w.size(); ++i) {
      const auto w = vector(all_w[i].values), m = vector(all_m[i].values), v = vector(all_v[i].values);
      const auto g = scale * vector(all_g[i].values);
      // Three assignments, one kernel: every element is read once and written once.
      const auto mean = b1 * m + (1 - b1) * g;
      const auto square = b2 * v + (1 - b2) * (g * g);
      const auto way = unbias_m * mean / (map(detail::square_root{}, unbias_v * square) + epsilon);
      evaluate(m <<= mean, v <<= square, w <<= (1 - rate * (all_w[i].decays ? decay : 0)) * w - rate * way);
    }
  }

 private:
  template <class T>
  static swiglu::view<T, swiglu::dynamic> vector(std::span<T> values) {
    return {values.data(), {values.size()}};
  }
};

}  // namespace char_lm

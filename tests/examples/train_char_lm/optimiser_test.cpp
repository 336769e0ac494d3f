// SPDX-License-Identifier: MIT
#include "adamw.hpp"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>
#include <swiglu/comm/launch.hpp>

#include "random.hpp"

using namespace char_lm;

namespace {

constexpr model_shape tiny{.context = 3, .width = 4, .intermediate = 8, .blocks = 2};
constexpr std::size_t alphabet = 7;
using whole = parameters<double, tiny, 1>;

whole random_values(std::uint64_t seed) {
  whole all(alphabet);
  std::uint64_t number = 0;
  for (const parameter<double>& p : all.list()) {
    random_stream random(seed, random_stream::purpose::weights, number++);
    for (double& value : p.values) value = random.uniform(-1, 1);
  }
  return all;
}

}  // namespace

TEST_CASE("the fused update is AdamW, written out for one number at a time") {
  constexpr double rate = 0.01, decay = 0.3, scale = 0.5;
  whole weights = random_values(1), expected = weights, gradients(alphabet);
  adamw<whole> optimiser(alphabet);
  whole first(alphabet), second(alphabet);
  for (std::size_t step = 0; step < 3; ++step) {
    gradients = random_values(10 + step);
    optimiser.update(weights, gradients, step, rate, decay, scale);
    const auto w = expected.list(), g = gradients.list(), m = first.list(), v = second.list();
    for (std::size_t i = 0; i < w.size(); ++i)
      for (std::size_t j = 0; j < w[i].values.size(); ++j) {
        const double slope = scale * g[i].values[j];
        double &mean = m[i].values[j], &square = v[i].values[j], &value = w[i].values[j];
        mean = 0.9 * mean + 0.1 * slope;
        square = 0.99 * square + 0.01 * slope * slope;
        const double t = static_cast<double>(step + 1);
        const double way = mean / (1 - std::pow(0.9, t)) / (std::sqrt(square / (1 - std::pow(0.99, t))) + 1e-8);
        value -= rate * (way + (w[i].decays ? decay * value : 0));
      }
  }
  const auto here = weights.list(), there = expected.list();
  for (std::size_t i = 0; i < here.size(); ++i) {
    CAPTURE(here[i].name);
    CHECK(here[i].decays == (here[i].name.find("norm") == std::string::npos));
    double worst = 0;
    for (std::size_t j = 0; j < here[i].values.size(); ++j)
      worst = std::max(worst, std::abs(here[i].values[j] - there[i].values[j]));
    CHECK(worst < 1e-14);
  }
}

TEST_CASE("the norm of a gradient counts every number once, on every mesh") {
  whole gradients = random_values(4);
  double squares = 0;
  for (const parameter<double>& p : gradients.list())
    for (const double g : p.values) squares += g * g;
  swiglu::self alone;
  CHECK(global_norm(gradients, alone) == doctest::Approx(std::sqrt(squares)).epsilon(1e-14));

  std::vector<double> norms(4);
  swiglu::run_ranks(2, 2, [&](swiglu::thread_mesh& axes) {
    parameters<double, tiny, 2> part(alphabet);
    shard(gradients, static_cast<std::size_t>(axes.tensor.rank()), part);
    norms[static_cast<std::size_t>(axes.rank())] = global_norm(part, axes.tensor);
  });
  for (const double norm : norms) {
    CHECK(norm == norms[0]);
    CHECK(norm == doctest::Approx(std::sqrt(squares)).epsilon(1e-14));
  }
}

TEST_CASE("the rate warms up, peaks, and falls along a cosine") {
  CHECK(learning_rate(1, 0, 100) == doctest::Approx(0.1));
  CHECK(learning_rate(1, 4, 100) == doctest::Approx(0.5));
  CHECK(learning_rate(1, 10, 100) == doctest::Approx(1));
  CHECK(learning_rate(1, 55, 100) == doctest::Approx(0.51));
  CHECK(learning_rate(1, 99, 100) == doctest::Approx(0.02).epsilon(0.02));
  for (std::size_t step = 11; step < 100; ++step)
    CHECK_UNARY(learning_rate(3, step, 100) < learning_rate(3, step - 1, 100));
  for (const std::size_t steps : {1u, 2u, 5u})  // too short to warm up
    for (std::size_t step = 0; step < steps; ++step) {
      const double rate = learning_rate(1, step, steps);
      CHECK_UNARY(rate > 0.01 && rate <= 1);
    }
}

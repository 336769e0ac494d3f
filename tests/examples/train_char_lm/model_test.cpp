// SPDX-License-Identifier: MIT
#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <swiglu/comm/launch.hpp>

#include "checkpoint.hpp"
#include "files.hpp"
#include "random.hpp"
#include "safetensors.hpp"

using namespace char_lm;

namespace {

constexpr model_shape tiny{.context = 3, .width = 4, .intermediate = 8, .blocks = 2};
constexpr std::size_t alphabet = 7, rows = 5;

template <std::size_t TensorParallel>
using tiny_model = model<double, tiny, TensorParallel>;

struct data {
  std::vector<symbol> contexts, targets;

  data() {
    random_stream random(3, random_stream::purpose::batch, 0);
    for (std::size_t i = 0; i < rows * tiny.context; ++i)
      contexts.push_back(static_cast<symbol>(random.below(alphabet)));
    for (std::size_t i = 0; i < rows; ++i) targets.push_back(static_cast<symbol>(random.below(alphabet)));
  }
};

// Not as training starts: with gains and a head that are all different and matter.
parameters<double, tiny, 1> random_weights() {
  parameters<double, tiny, 1> weights(alphabet);
  std::uint64_t number = 0;
  for (const parameter<double>& p : weights.list()) {
    random_stream random(5, random_stream::purpose::weights, number++);
    for (double& w : p.values) w = random.uniform(-1, 1) + (p.from == initial::one ? 1 : 0);
  }
  return weights;
}

template <std::size_t TensorParallel, class Axes>
double mean_loss(tiny_model<TensorParallel>& m, const data& d, const Axes& axes) {
  return cross_entropy<double>(m.forward(d.contexts, axes), d.targets) / rows;
}

// The gradients, whole, of ranks that share the rows.
template <std::size_t TensorParallel, class Axes>
parameters<double, tiny, 1> mean_gradients(const data& d, const Axes& axes) {
  tiny_model<TensorParallel> m(alphabet, rows);
  shard(random_weights(), static_cast<std::size_t>(axes.tensor.rank()), m.weights);
  const std::size_t ranks = static_cast<std::size_t>(axes.data.size()),
                    rank = static_cast<std::size_t>(axes.data.rank());
  const std::size_t first = rows * rank / ranks, count = rows * (rank + 1) / ranks - first;
  const auto contexts = std::span(d.contexts).subspan(first * tiny.context, count * tiny.context);
  const auto targets = std::span(d.targets).subspan(first, count);
  const logits_view<double> logits = m.forward(contexts, axes);
  cross_entropy<double>(logits, targets);
  cross_entropy_backward<double>(logits, targets, 1.0 / rows);
  m.backward(contexts, logits, axes);
  return gather(m.gradients, axes.tensor);
}

}  // namespace

TEST_CASE("the gradient of every parameter is the slope of the loss") {
  const data d;
  swiglu::self alone;
  const swiglu::mesh axes(alone, alone);
  auto gradients = mean_gradients<1>(d, axes);
  tiny_model<1> m(alphabet, rows);
  m.weights = random_weights();
  const auto weights = m.weights.list(), slopes = gradients.list();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    double worst = 0, largest = 0;
    for (std::size_t j = 0; j < weights[i].values.size(); ++j) {
      constexpr double h = 2e-6;
      double& w = weights[i].values[j];
      const double before = w;
      w = before + h;
      const double above = mean_loss(m, d, axes);
      w = before - h;
      const double below = mean_loss(m, d, axes);
      w = before;
      worst = std::max(worst, std::abs((above - below) / (2 * h) - slopes[i].values[j]));
      largest = std::max(largest, std::abs(slopes[i].values[j]));
    }
    CAPTURE(weights[i].name);
    CHECK(worst < 1e-8);
    CHECK(largest > 1e-3);  // a test that compares zeros says nothing
  }
}

TEST_CASE("every mesh has the gradients of one rank") {
  const data d;
  swiglu::self alone;
  auto expected = mean_gradients<1>(d, swiglu::mesh(alone, alone));
  const auto agree = [&](auto gradients) {
    const auto here = gradients.list(), there = expected.list();
    double worst = 0;
    for (std::size_t i = 0; i < here.size(); ++i)
      for (std::size_t j = 0; j < here[i].values.size(); ++j)
        worst = std::max(worst, std::abs(here[i].values[j] - there[i].values[j]));
    return worst < 1e-13;
  };
  std::vector<int> ranks_that_agree(4, 0);
  const auto run = [&]<std::size_t TensorParallel>(int data_ranks) {
    swiglu::run_ranks(data_ranks, static_cast<int>(TensorParallel), [&](swiglu::thread_mesh& axes) {
      ranks_that_agree[static_cast<std::size_t>(axes.rank())] += agree(mean_gradients<TensorParallel>(d, axes)) ? 1 : 0;
    });
  };
  run.operator()<1>(2);
  run.operator()<2>(1);
  run.operator()<2>(2);
  run.operator()<1>(3);  // 5 rows: not the same number on every rank
  CHECK(ranks_that_agree == std::vector<int>{4, 4, 2, 1});
}

TEST_CASE("a model that knows nothing guesses") {
  const data d;
  swiglu::self alone;
  tiny_model<1> m(alphabet, rows);
  initialise(m.weights, 1);
  CHECK(mean_loss(m, d, swiglu::mesh(alone, alone)) == doctest::Approx(std::log(alphabet)).epsilon(0.1));
}

TEST_CASE("a norm of rows, a softmax of rows, a sum in lanes") {
  const double ones[]{1, 1, 1};
  double x[]{3, 4, 0}, y[3], r[1];
  rms_norm<double>({x, {1, 3}}, ones, {y, {1, 3}}, r);
  CHECK(y[1] == doctest::Approx(4 / std::sqrt(25.0 / 3)).epsilon(1e-5));

  double logits[]{1000, 1000 + std::log(3.0)};  // the exponentials overflow, the probabilities do not
  CHECK(cross_entropy<double>({logits, {1, 2}}, std::vector<symbol>{0}) == doctest::Approx(std::log(4.0)));
  CHECK(logits[1] == doctest::Approx(0.75));

  for (const std::size_t n : {0u, 1u, 15u, 16u, 17u, 100u})
    CHECK(lane_sum<int>(n, [](std::size_t i) { return static_cast<int>(i); }) ==
          static_cast<int>(n * (n - (n > 0)) / 2));
}

TEST_CASE("the tensors of a checkpoint are the parameters, by name, in their shape") {
  parameters<double, tiny, 1> weights = random_weights();
  checkpoint c{.shape = tiny, .alphabet = alphabet, .fingerprint = 0, .step = 0, .made_with = {}, .state = {}};
  for (std::vector<float>& section : c.state)
    for (const double value : flatten(weights)) section.push_back(static_cast<float>(value));
  const temporary_folder folder;
  save_checkpoint(folder.path("a"), c);

  safetensors::reader file(folder.path("a"));
  std::size_t parameters = 0;
  for (const parameter<double>& p : weights.list()) {
    std::string name("weights.");  // "block 0 gate" there is "blocks.0.gate" here
    int spaces = 0;
    for (const char letter : p.name) {
      if (letter == ' ' && spaces++ == 0) name.push_back('s');
      name.push_back(letter == ' ' ? '.' : letter);
    }
    std::vector<float> saved(p.values.size());
    file.read(file.header().find(name), saved);
    CHECK(std::ranges::equal(saved, p.values, {}, {}, [](double value) { return static_cast<float>(value); }));
    ++parameters;
  }
  CHECK(3 * parameters == file.header().tensors.size());
  using extents = std::vector<std::uint64_t>;
  CHECK(file.header().find("weights.embedding").shape == extents{weights.embedding.rows(), weights.embedding.cols()});
  CHECK(file.header().find("weights.head").shape == extents{weights.head.rows(), weights.head.cols()});
  const auto& layer = weights.blocks[1].weights;
  CHECK(file.header().find("weights.blocks.1.gate").shape == extents{layer.gate.rows(), layer.gate.cols()});
  CHECK(file.header().find("weights.blocks.1.down").shape == extents{layer.down.rows(), layer.down.cols()});
}

// SPDX-License-Identifier: MIT
#pragma once

// What the model learns, and its shape:
//
//     embedding  [alphabet, width]                              the characters of the context, side by side, are x
//     block i    norm [hidden], gate, up, down                  x += mlp(rms_norm(x) * norm), the library's layer
//     norm       [hidden]
//     head       [hidden, alphabet]                             logits = (rms_norm(x) * norm) head
//
// On a mesh, gate, up and down are cut over the tensor axis; all the rest is the same on every rank.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <swiglu/mlp.hpp>

#include "random.hpp"
#include "shape.hpp"

namespace char_lm {

/// How a parameter starts.
enum class initial { one, small, random };

/// One of the parameters, for those who treat all alike: the initialisation, the optimiser, the checkpoint.
template <class T>
struct parameter {
  std::string name;
  std::span<T> values;
  std::size_t inputs;  ///< how many terms one output sums: what the initial weights are scaled by
  initial from = initial::random;
  bool cut = false;    ///< each tensor rank holds a part
  bool decays = true;  ///< weight decay: matrices yes, gains no
};

/// The parameters of one of `TensorParallel` ranks, or their gradients, or moments of these: zero at first. With
/// TensorParallel = 1 they are the whole, which is initialised, saved and loaded.
template <swiglu::real T, model_shape Shape, std::size_t TensorParallel>
struct parameters {
  using value_type = T;
  static constexpr std::size_t hidden = Shape.hidden();
  using mlp =
      swiglu::mlp<T, swiglu::dims{
                         .hidden = hidden, .intermediate = Shape.intermediate, .tensor_parallel = TensorParallel}>;
  struct block {
    swiglu::tensor<T, hidden> norm;
    typename mlp::weights weights;
  };

  explicit parameters(std::size_t alphabet) : embedding(alphabet), head(alphabet) {}

  swiglu::tensor<T, swiglu::dynamic, Shape.width> embedding;
  std::array<block, Shape.blocks> blocks;
  swiglu::tensor<T, hidden> norm;
  swiglu::tensor<T, hidden, swiglu::dynamic> head;

  /// All of them, always in this order.
  std::vector<parameter<T>> list() {
    using enum initial;
    std::vector<parameter<T>> all;
    all.push_back({.name = "embedding", .values = embedding.span(), .inputs = 1});
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      auto& [gain, w] = blocks[i];
      const std::string of = "block " + std::to_string(i) + " ";
      all.push_back({.name = of + "norm", .values = gain.span(), .inputs = 1, .from = one, .decays = false});
      all.push_back({.name = of + "gate", .values = w.gate.span(), .inputs = hidden, .cut = true});
      all.push_back({.name = of + "up", .values = w.up.span(), .inputs = hidden, .cut = true});
      all.push_back({.name = of + "down", .values = w.down.span(), .inputs = Shape.intermediate, .cut = true});
    }
    all.push_back({.name = "norm", .values = norm.span(), .inputs = 1, .from = one, .decays = false});
    all.push_back({.name = "head", .values = head.span(), .inputs = hidden, .from = small});
    return all;
  }
};

/// Gains start at 1, matrices uniform with variance 1 / inputs. The head starts smaller: a model that knows nothing
/// should say so, with a loss of about log(alphabet).
template <swiglu::real T, model_shape Shape>
void initialise(parameters<T, Shape, 1>& all, std::uint64_t seed) {
  std::uint64_t number = 0;
  for (const parameter<T>& p : all.list()) {
    random_stream random(seed, random_stream::purpose::weights, number++);
    const double scale = p.from == initial::small ? 0.1 : 1.0;
    const double limit = scale * std::sqrt(3 / static_cast<double>(p.inputs));
    for (T& value : p.values) value = p.from == initial::one ? T(1) : static_cast<T>(random.uniform(-limit, limit));
  }
}

/// The part of tensor rank `rank`.
template <swiglu::real T, model_shape Shape, std::size_t TensorParallel>
void shard(const parameters<T, Shape, 1>& whole, std::size_t rank, parameters<T, Shape, TensorParallel>& part) {
  part.embedding = whole.embedding;
  for (std::size_t i = 0; i < Shape.blocks; ++i) {
    part.blocks[i].norm = whole.blocks[i].norm;
    swiglu::shard_weights(whole.blocks[i].weights, rank, part.blocks[i].weights);
  }
  part.norm = whole.norm;
  part.head = whole.head;
}

/// The whole, on every rank of the tensor axis. Each puts its part into a tensor of -0 and all are added up: x + (-0)
/// is x, to the last bit, for every x.
template <swiglu::real T, model_shape Shape, std::size_t TensorParallel, class Tensor>
parameters<T, Shape, 1> gather(const parameters<T, Shape, TensorParallel>& part, Tensor& axis) {
  parameters<T, Shape, 1> whole(part.embedding.rows());
  whole.embedding = part.embedding;
  for (std::size_t i = 0; i < Shape.blocks; ++i) {
    whole.blocks[i].norm = part.blocks[i].norm;
    auto& weights = whole.blocks[i].weights;
    const std::array<std::span<T>, 3> spans{weights.gate.span(), weights.up.span(), weights.down.span()};
    for (const std::span<T> span : spans) std::ranges::fill(span, -T(0));
    swiglu::unshard_weights(part.blocks[i].weights, static_cast<std::size_t>(axis.rank()), weights);
    swiglu::all_reduce<T>(axis, spans);
  }
  whole.norm = part.norm;
  whole.head = part.head;
  return whole;
}

}  // namespace char_lm

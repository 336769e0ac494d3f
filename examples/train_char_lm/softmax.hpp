// SPDX-License-Identifier: MIT
#pragma once

// What the logits say about the next character, and what it costs:
//
//     p = exp(logit) / sum exp(logit)     loss = -log p[target]     grad_logits = p - (1 at the target, 0 elsewhere)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include <swiglu/tensor.hpp>

#include "corpus.hpp"

namespace char_lm {

template <class T>
using logits_view = swiglu::view<T, swiglu::dynamic, swiglu::dynamic>;

/// Turns a row of logits into probabilities. Returns log(sum exp(logit)).
template <class T>
T softmax(std::span<T> row) {
  const T largest = std::ranges::max(row);
  T sum = 0;
  for (T& p : row) sum += p = std::exp(p - largest);
  for (T& p : row) p /= sum;
  return largest + std::log(sum);
}

/// The loss in nats, summed over the rows; the logits become probabilities.
template <class T>
double cross_entropy(logits_view<T> logits, std::span<const symbol> targets) {
  double loss = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const T of_target = logits(row, targets[row]);
    loss += static_cast<double>(softmax(std::span(&logits(row, 0), logits.cols())) - of_target);
  }
  return loss;
}

/// Turns the probabilities into the gradient of `scale` times the summed loss.
template <class T>
void cross_entropy_backward(logits_view<T> probabilities, std::span<const symbol> targets, T scale) {
  for (std::size_t row = 0; row < targets.size(); ++row) {
    probabilities(row, targets[row]) -= 1;
    for (T& p : std::span(&probabilities(row, 0), probabilities.cols())) p *= scale;
  }
}

}  // namespace char_lm

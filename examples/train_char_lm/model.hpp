// SPDX-License-Identifier: MIT
#pragma once

// The model, forward and backward, as one rank of a mesh computes it. The library does the SwiGLU layers, alone or on a
// mesh: for that the model makes two calls, marked below. Its language of kernels does the products with the head. The
// rest is plain code that every tensor rank runs alike.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include <swiglu/mlp.hpp>

#include "corpus.hpp"
#include "parameters.hpp"
#include "rms_norm.hpp"
#include "softmax.hpp"

namespace char_lm {

template <swiglu::real T, model_shape Shape, std::size_t TensorParallel>
class model {
 public:
  using parameters = char_lm::parameters<T, Shape, TensorParallel>;
  using mlp = typename parameters::mlp;

  /// Allocates for at most `rows` contexts a call.
  model(std::size_t alphabet, std::size_t rows)
      : weights(alphabet),
        gradients(alphabet),
        scratch_(rows),
        stages_(Shape.blocks + 1, stage(rows)),
        grad_x_(rows),
        grad_normed_(rows),
        logits_(rows, alphabet) {
    for (std::size_t i = 0; i < Shape.blocks; ++i) saved_.emplace_back(rows);
  }

  parameters weights, gradients;

  /// `contexts` [rows, context] symbols -> the logits of what comes next, [rows, alphabet], until the next call.
  template <class Axes>
  logits_view<T> forward(std::span<const symbol> contexts, const Axes& axes) {
    const std::size_t rows = contexts.size() / Shape.context;
    embed(contexts, x(0, rows));
    for (std::size_t i = 0; i < Shape.blocks; ++i) {
      const auto& block = weights.blocks[i];
      rms_norm<T>(x(i, rows), block.norm.span(), normed(i, rows), stages_[i].r);
      // The library's layer: out [rows, hidden] is summed over the tensor axis.
      mlp::forward(normed(i, rows), block.weights, saved_[i], scratch_, x(i + 1, rows), axes);
      evaluate(scratch_.on(), x(i + 1, rows) <<= x(i, rows) + x(i + 1, rows));  // the residual
    }
    const matrix last = normed(Shape.blocks, rows);
    rms_norm<T>(x(Shape.blocks, rows), weights.norm.span(), last, stages_.back().r);
    const matrix logits = logits_.view().row_block(0, rows);
    evaluate(scratch_.on(), logits <<= product(last, weights.head));
    return logits;
  }

  /// The gradients of all parameters, given those of the logits of the last forward pass, summed over the data axis.
  template <class Axes>
  void backward(std::span<const symbol> contexts, logits_view<const T> grad_logits, const Axes& axes) {
    const std::size_t rows = grad_logits.rows(), top = Shape.blocks;
    const matrix grad_x = grad_x_.view().row_block(0, rows), grad_normed = grad_normed_.view().row_block(0, rows);
    evaluate(scratch_.on(), gradients.head <<= product(transpose(normed(top, rows)), grad_logits));
    evaluate(scratch_.on(), grad_normed <<= product(grad_logits, transpose(weights.head)));
    std::ranges::fill(grad_x_.span(), T(0));
    rms_norm_backward<T>(grad_normed, x(top, rows), weights.norm.span(), stages_[top].r, grad_x, gradients.norm.span());
    for (std::size_t i = Shape.blocks; i-- > 0;) {
      const auto& block = weights.blocks[i];
      auto& gradient = gradients.blocks[i];
      // The library's layer: grad_x is summed over the tensor axis, the weight gradients over the data axis.
      mlp::backward(grad_x, normed(i, rows), block.weights, saved_[i], scratch_, grad_normed, gradient.weights, axes);
      rms_norm_backward<T>(grad_normed, x(i, rows), block.norm.span(), stages_[i].r, grad_x, gradient.norm.span());
    }
    embed_backward(contexts, grad_x);
    sum_over_data(axes.data);
  }

 private:
  using matrix = swiglu::view<T, swiglu::dynamic, swiglu::dynamic>;

  // What one norm reads, writes and keeps.
  struct stage {
    explicit stage(std::size_t rows) : x(rows), normed(rows), r(rows) {}
    swiglu::tensor<T, swiglu::dynamic, Shape.hidden()> x, normed;
    std::vector<T> r;
  };
  matrix x(std::size_t i, std::size_t rows) { return stages_[i].x.view().row_block(0, rows); }
  matrix normed(std::size_t i, std::size_t rows) { return stages_[i].normed.view().row_block(0, rows); }

  void embed(std::span<const symbol> contexts, matrix to) const {
    for (std::size_t i = 0; i < contexts.size(); ++i)
      std::copy_n(&weights.embedding(contexts[i], 0), Shape.width,
                  &to(i / Shape.context, i % Shape.context * Shape.width));
  }

  void embed_backward(std::span<const symbol> contexts, matrix grad) {
    std::ranges::fill(gradients.embedding.span(), T(0));
    for (std::size_t i = 0; i < contexts.size(); ++i) {
      const T* from = &grad(i / Shape.context, i % Shape.context * Shape.width);
      T* to = &gradients.embedding(contexts[i], 0);
      for (std::size_t j = 0; j < Shape.width; ++j) to[j] += from[j];
    }
  }

  // The layers have summed their own gradients; what is not cut over the tensor axis goes in one call, with names by
  // which the ranks notice if they mean different things.
  template <class Data>
  void sum_over_data(Data& axis) {
    std::vector<std::span<T>> buffers;
    std::vector<std::string_view> names;
    for (const parameter<T>& p : listed_) {
      if (p.cut) continue;
      buffers.push_back(p.values);
      names.push_back(p.name);
    }
    swiglu::all_reduce<T>(axis, buffers, names);
  }

  std::vector<parameter<T>> listed_ = gradients.list();
  typename mlp::workspace scratch_;
  std::vector<typename mlp::saved> saved_;
  std::vector<stage> stages_;
  swiglu::tensor<T, swiglu::dynamic, Shape.hidden()> grad_x_, grad_normed_;
  swiglu::tensor<T, swiglu::dynamic, swiglu::dynamic> logits_;
};

}  // namespace char_lm

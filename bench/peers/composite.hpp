// SPDX-License-Identifier: MIT
#pragma once

// The layer as one writes it on a library of matrix products: nine products, and two elementwise passes that are fused
// and vectorised by hand (they are ours, so that every peer has the best there is).

#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <swiglu/expr/evaluate.hpp>

#include "../layer_case.hpp"

namespace bench {

/// A matrix in row-major memory, read as it is or transposed.
struct factor {
  const float* data;
  std::size_t cols;  // of the memory
  bool transposed = false;
};

/// Gemm::run(rows, cols, depth, a, b, beta, c): c [rows, cols] = a b + beta c, all row-major, c contiguous.
/// Gemm::executor runs the elementwise passes, on the threads of the library where it shares them.
template <class Gemm>
class composite {
  using matrix = swiglu::tensor<float, swiglu::dynamic, swiglu::dynamic>;

 public:
  composite(shape s, typename Gemm::executor threads)
      : s_(s),
        threads_(threads),
        x_(s.tokens, s.hidden),
        grad_out_(s.tokens, s.hidden),
        out_(s.tokens, s.hidden),
        grad_x_(s.tokens, s.hidden),
        gate_(s.hidden, s.intermediate),
        up_(s.hidden, s.intermediate),
        down_(s.intermediate, s.hidden),
        g_gate_(s.hidden, s.intermediate),
        g_up_(s.hidden, s.intermediate),
        g_down_(s.intermediate, s.hidden),
        h1_(s.tokens, s.intermediate),
        h3_(s.tokens, s.intermediate),
        h_(s.tokens, s.intermediate),
        g_h_(s.tokens, s.intermediate),
        g_h1_(s.tokens, s.intermediate),
        g_h3_(s.tokens, s.intermediate) {
    fill_inputs(x_, grad_out_, gate_, up_, down_);
  }

  void forward() {
    const auto [t, h, i] = s_;
    multiply(t, i, h, as_is(x_), as_is(gate_), 0, h1_.data());
    multiply(t, i, h, as_is(x_), as_is(up_), 0, h3_.data());
    evaluate(on(), noalias(h_) <<= silu(h1_) * h3_);
    multiply(t, h, i, as_is(h_), as_is(down_), 0, out_.data());
  }
  void backward() {
    const auto [t, h, i] = s_;
    multiply(t, i, h, as_is(grad_out_), transposed(down_), 0, g_h_.data());
    evaluate(on(), noalias(g_h1_) <<= g_h_ * (h3_ * silu_grad(h1_)), noalias(g_h3_) <<= g_h_ * silu(h1_));
    multiply(t, h, i, as_is(g_h1_), transposed(gate_), 0, grad_x_.data());
    multiply(t, h, i, as_is(g_h3_), transposed(up_), 1, grad_x_.data());
    multiply(h, i, t, transposed(x_), as_is(g_h1_), 0, g_gate_.data());
    multiply(h, i, t, transposed(x_), as_is(g_h3_), 0, g_up_.data());
    multiply(i, h, t, transposed(h_), as_is(grad_out_), 0, g_down_.data());
  }
  std::array<std::span<const float>, 3> weights() const { return {gate_.span(), up_.span(), down_.span()}; }
  std::size_t saved_bytes() const { return (h1_.size() + h3_.size() + h_.size()) * sizeof(float); }
  std::size_t bytes() const { return (g_h_.size() + g_h1_.size() + g_h3_.size()) * sizeof(float); }

 private:
  static void multiply(std::size_t rows, std::size_t cols, std::size_t depth, factor a, factor b, float beta,
                       float* c) {
    Gemm::run(rows, cols, depth, a, b, beta, c);
    if (slices::current() != nullptr) slices::current()->pause();
  }
  static factor as_is(const matrix& m) { return {m.data(), m.cols(), false}; }
  static factor transposed(const matrix& m) { return {m.data(), m.cols(), true}; }
  swiglu::resources<float, typename Gemm::executor> on() { return {memory_, threads_}; }

  shape s_;
  typename Gemm::executor threads_;
  matrix x_, grad_out_, out_, grad_x_, gate_, up_, down_, g_gate_, g_up_, g_down_, h1_, h3_, h_, g_h_, g_h1_, g_h3_;
  swiglu::scratch<float> memory_;
};

/// Throws unless Gemm multiplies as plain loops do: a fast product that is wrong is no peer.
template <class Gemm>
void check_products() {
  const auto element = [](const factor& f, std::size_t r, std::size_t c) {
    return f.transposed ? f.data[c * f.cols + r] : f.data[r * f.cols + c];
  };
  for (const auto& [rows, cols, depth] : {shape{1, 20, 33}, shape{16, 16, 16}, shape{33, 20, 9}, shape{20, 33, 1}})
    for (const auto& [a_transposed, b_transposed] : {std::pair{false, false}, {false, true}, {true, false}})
      for (const float beta : {0.0f, 1.0f}) {
        std::vector<float> a(rows * depth), b(depth * cols), c(rows * cols, 2.0f);
        fill(std::span(a), 1, 1), fill(std::span(b), 1, 2);
        const factor left{a.data(), a_transposed ? rows : depth, a_transposed};
        const factor right{b.data(), b_transposed ? depth : cols, b_transposed};
        Gemm::run(rows, cols, depth, left, right, beta, c.data());
        for (std::size_t i = 0; i < rows; ++i)
          for (std::size_t j = 0; j < cols; ++j) {
            float sum = beta * 2;
            for (std::size_t k = 0; k < depth; ++k) sum += element(left, i, k) * element(right, k, j);
            if (!(std::abs(sum - c[i * cols + j]) < 1e-4f))
              throw std::logic_error("wrong product: rows " + std::to_string(rows) + ", columns " +
                                     std::to_string(cols) + ", depth " + std::to_string(depth));
          }
      }
}

/// The whole program of a peer. Gemm::set_threads(n) comes before everything else.
template <class Gemm>
int peer_main(const char* variant, int argc, char** argv) {
  check_products<Gemm>();
  const auto add_on = [&](shape s, std::size_t threads) {
    add(variant, s, threads, [=] {
      Gemm::set_threads(static_cast<int>(threads));
      return std::make_unique<composite<Gemm>>(s, typename Gemm::executor(threads));
    });
  };
  for (const shape s : shapes) add_on(s, 1);
  for (const shape s : shapes_of_two_threads) add_on(s, 2);
  return run_all(argc, argv);
}

}  // namespace bench

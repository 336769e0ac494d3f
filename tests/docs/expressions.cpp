// SPDX-License-Identifier: MIT

// The snippets of docs/expressions.md, compiled and run. Exits 1 if what they compute disagrees.

#include <cmath>
#include <cstdio>

#include <swiglu/mlp.hpp>

using namespace swiglu;

int main() {
  tensor<float, dynamic, 24> x{7}, g{7};
  tensor<float, 24, 40> w_gate, w_up;
  tensor<float, 40, 24> w_down, out_w, sum;
  tensor<float, dynamic, 40> h{7}, h1{7}, h3{7};
  tensor<float, dynamic, 24> y{7}, plain{7};
  tensor<float, 24> bias;
  tensor<float, 40> gate_bias;
  unsigned seed = 1;
  const auto fill = [&](auto values) {
    for (float& v : values) v = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
  };
  fill(x.span()), fill(g.span()), fill(w_gate.span()), fill(w_up.span()), fill(w_down.span()), fill(bias.span());
  fill(gate_bias.span());

  // [geglu]
  // GEGLU: another gate in the place of silu. gelu(v) = v sigmoid(2 u), u = sqrt(2 / pi) (v + 0.044715 v^3).
  const auto gelu = [](auto v) {
    using V = decltype(v);  // a register, several of them, or a float
    return v * sigmoid(v * fma(v * v, V(0.07135482f), V(1.5957691f)));
  };
  evaluate(h <<= map(gelu, product<"gate">(x, w_gate)) * product<"up">(x, w_up));
  // [/geglu]
  evaluate(h1 <<= product(x, w_gate), h3 <<= product(x, w_up));
  bool good = true;
  const auto near = [&](float actual, double expected) {
    good = good && std::fabs(static_cast<double>(actual) - expected) <= 1e-5 * (1 + std::fabs(expected));
  };
  for (std::size_t i = 0; i < h.size(); ++i) {
    const double v = static_cast<double>(h1.data()[i]), pi = 3.14159265358979;
    const double u = std::sqrt(2 / pi) * (v + 0.044715 * v * v * v);
    near(h.data()[i], 0.5 * v * (1 + std::tanh(u)) * static_cast<double>(h3.data()[i]));
  }

  {
    auto& out = y;
    // [residual]
    // The residual of a transformer block in the epilogue of the down projection: no pass of its own over memory.
    evaluate(out <<= x + product(h, w_down));
    // [/residual]
    evaluate(plain <<= product(h, w_down));
    for (std::size_t i = 0; i < out.size(); ++i)
      near(out.data()[i], static_cast<double>(x.data()[i]) + static_cast<double>(plain.data()[i]));
    // [bias]
    // Biases: a vector as every row, before a gate and after a product.
    evaluate(h <<= silu(product<"gate">(x, w_gate) + broadcast_row(gate_bias)) * product<"up">(x, w_up));
    evaluate(out <<= product(h, w_down) + broadcast_row(bias));
    // [/bias]
    for (std::size_t i = 0; i < h.size(); ++i) {
      const double v = static_cast<double>(h1.data()[i]) + static_cast<double>(gate_bias.data()[i % 40]);
      near(h.data()[i], v / (1 + std::exp(-v)) * static_cast<double>(h3.data()[i]));
    }
    evaluate(plain <<= product(h, w_down));
    for (std::size_t i = 0; i < out.size(); ++i)
      near(out.data()[i], static_cast<double>(plain.data()[i]) + static_cast<double>(bias.data()[i % 24]));
  }
  {
    auto& out = out_w;
    // [resources]
    // In a loop, lend the kernel its memory: after the first run nothing is allocated.
    scratch<float> memory;
    serial threads;
    evaluate(resources{memory, threads}, noalias(out) <<= product(transpose(h), g), accumulate(sum) <<= 2 * out);
    // [/resources]
    for (const float v : sum.span()) good = good && v == 0;  // `out` was 0 before: right-hand sides see old values
  }
  if (!good) std::puts("a snippet of docs/expressions.md computes something else than it says");
  return good ? 0 : 1;
}

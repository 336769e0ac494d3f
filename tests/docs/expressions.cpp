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
  unsigned seed = 1;
  const auto fill = [&](auto values) {
    for (float& v : values) v = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
  };
  fill(x.span()), fill(g.span()), fill(w_gate.span()), fill(w_up.span()), fill(w_down.span()), fill(bias.span());

  // [gelu]
  // A gate of one's own: map takes any function that is generic over registers.
  const auto swish2 = [](auto v) { return v * sigmoid(v + v); };
  evaluate(h <<= map(swish2, product<"gate">(x, w_gate)) * product<"up">(x, w_up));
  // [/gelu]
  evaluate(h1 <<= product(x, w_gate), h3 <<= product(x, w_up));
  bool good = true;
  for (std::size_t i = 0; i < h.size(); ++i) {
    const float v = h1.data()[i];
    good = good && std::fabs(h.data()[i] - v * sigmoid(2 * v) * h3.data()[i]) <= 1e-5f * (1 + std::fabs(h.data()[i]));
  }

  {
    auto& out = y;
    // [residual]
    // A residual and a bias in the epilogue of a product: out = x + h w_down + bias.
    evaluate(out <<= x + product(h, w_down) + broadcast_row(bias));
    // [/residual]
    evaluate(plain <<= product(h, w_down));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float expected = x.data()[i] + plain.data()[i] + bias.data()[i % 24];
      good = good && std::fabs(out.data()[i] - expected) <= 1e-5f * (1 + std::fabs(expected));
    }
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

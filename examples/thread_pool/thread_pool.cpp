// SPDX-License-Identifier: MIT

// A training step on a thread pool of one's own, with 1, 2, 3 and 8 threads: the same bits every time. Exit status 1 if
// they differ.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>

#include <swiglu/mlp.hpp>

#include "pool.hpp"

namespace {

using layer =
    swiglu::mlp<float, swiglu::dims{.hidden = 256, .intermediate = 704}, swiglu::schedule::fused, example::on_pool>;
static_assert(swiglu::executor<example::on_pool>);
constexpr std::size_t tokens = 200;

struct results {
  swiglu::tensor<float, swiglu::dynamic, 256> out{tokens}, grad_x{tokens};
  layer::gradients grad_w;
};

void fill(std::span<float> values, float scale, std::uint32_t seed) {
  for (float& v : values) {
    seed = seed * 1664525u + 1013904223u;
    v = scale * (static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
  }
}

template <class Tensor>
bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
bool same_bits(const results& a, const results& b) {
  return same_bits(a.out, b.out) && same_bits(a.grad_x, b.grad_x) && same_bits(a.grad_w.gate, b.grad_w.gate) &&
         same_bits(a.grad_w.up, b.grad_w.up) && same_bits(a.grad_w.down, b.grad_w.down);
}

}  // namespace

int main() {
  swiglu::tensor<float, swiglu::dynamic, 256> x{tokens}, grad_out{tokens};
  layer::weights w;
  fill(x.span(), 1, 1), fill(grad_out.span(), 1, 2);
  fill(w.gate.span(), 0.1f, 3), fill(w.up.span(), 0.1f, 4), fill(w.down.span(), 0.06f, 5);

  results first;
  bool all_same = true;
  for (const std::size_t threads : {1U, 2U, 3U, 8U}) {
    example::pool pool(threads);
    layer::saved s{tokens};
    layer::workspace ws{tokens, example::on_pool(pool)};
    results r;
    constexpr int steps = 20;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) {
      layer::forward(x, w, s, ws, r.out);
      layer::backward(grad_out, x, w, s, ws, r.grad_x, r.grad_w);
    }
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
    if (threads == 1) first = std::move(r);
    const bool same = threads == 1 || same_bits(first, r);
    all_same = all_same && same;
    std::printf("%zu thread%s  %6.2f ms a step%s\n", threads, threads == 1 ? " " : "s", elapsed.count() / steps,
                threads == 1 ? ""
                : same       ? ", the same bits"
                             : ", DIFFERENT BITS");
  }
  return all_same ? 0 : 1;
}

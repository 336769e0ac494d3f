// SPDX-License-Identifier: MIT

// The six contractions of the fused layer, one by one (mlp/forward.hpp, mlp/backward.hpp), epilogues and packing
// included.

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <swiglu/expr/evaluate.hpp>

#include "layer_case.hpp"
#include "stages.hpp"

namespace {

using swiglu::dynamic;
using swiglu::noalias;
using swiglu::product;

class problem {
  using matrix = swiglu::tensor<float, dynamic, dynamic>;

 public:
  explicit problem(bench::shape s)
      : x_(s.tokens, s.hidden),
        grad_out_(s.tokens, s.hidden),
        out_(s.tokens, s.hidden),
        gate_(s.hidden, s.intermediate),
        up_(s.hidden, s.intermediate),
        down_(s.intermediate, s.hidden),
        g_gate_(s.hidden, s.intermediate),
        g_up_(s.hidden, s.intermediate),
        g_down_(s.intermediate, s.hidden),
        grad_out_panels_(s.tokens, s.hidden),
        h_(s.tokens, s.intermediate),
        h1_h3_(s.tokens, s.intermediate),
        g_h1_g_h3_(s.tokens, s.intermediate) {
    bench::fill_inputs(x_, grad_out_, gate_, up_, down_);
    evaluate(on(), noalias(grad_out_panels_.view()) <<= grad_out_);
    for (std::size_t nth = 1; nth <= 6; ++nth) run(nth);
  }

  void run(std::size_t nth) {
    const auto h1 = h1_h3_.first(), h3 = h1_h3_.second(), g_h1 = g_h1_g_h3_.first(), g_h3 = g_h1_g_h3_.second();
    const auto h = h_.view(), grad_out = grad_out_panels_.view();
    switch (nth) {
      case 1: {
        const auto gate = product<"h1">(x_, gate_);
        const auto up = product<"h3">(x_, up_);
        return evaluate(on(), noalias(h1) <<= gate, noalias(h3) <<= up, noalias(h) <<= silu(gate) * up);
      }
      case 2:
        return evaluate(on(), noalias(out_) <<= product(h, down_));
      case 3: {
        const auto g_h = product<"g_h">(grad_out, transpose(down_));
        return evaluate(on(), noalias(g_h1) <<= g_h * (h3 * silu_grad(h1)), noalias(g_h3) <<= g_h * silu(h1));
      }
      case 4:
        return evaluate(on(), noalias(out_) <<= product(g_h1, transpose(gate_)) + product(g_h3, transpose(up_)));
      case 5:
        return evaluate(on(), noalias(g_gate_) <<= product<"g_gate">(transpose(x_), g_h1),
                        noalias(g_up_) <<= product<"g_up">(transpose(x_), g_h3));
      default:
        return evaluate(on(), noalias(g_down_) <<= product(transpose(h), grad_out));
    }
  }

 private:
  swiglu::resources<float, swiglu::serial> on() { return {memory_, threads_}; }

  matrix x_, grad_out_, out_, gate_, up_, down_, g_gate_, g_up_, g_down_;
  swiglu::panels<float> grad_out_panels_, h_;
  swiglu::paired_panels<float> h1_h3_, g_h1_g_h3_;
  swiglu::scratch<float> memory_;
  swiglu::serial threads_;
};

}  // namespace

void bench::add_contractions() {
  constexpr std::array<std::pair<const char*, int>, 6> contractions{
      {{"1_h1_h3_h", 4}, {"2_out", 2}, {"3_g_h1_g_h3", 2}, {"4_grad_x", 4}, {"5_g_gate_g_up", 4}, {"6_g_down", 2}}};
  for (const shape s : shapes)
    for (std::size_t i = 0; i < contractions.size(); ++i) {
      const auto [variant, terms] = contractions[i];
      // One problem serves all six.
      const std::string kept = name_of("gemm", "all", s, 1);
      const double flops = forward_flops(s) / 6 * terms;
      register_run(name_of("gemm", variant, s, 1), [=](benchmark::State& state) {
        auto& p = problem_of(kept, [&] { return std::make_unique<problem>(s); });
        slices clock(1);
        run_step(state, clock, flops, [&p = *p, i] { p.run(i + 1); });
      });
    }
}

// SPDX-License-Identifier: MIT

// The elementwise formulas of the layer alone, over panels, as the schedules that keep them apart run them. Counters:
// elements a second, and `fma_per_element`: the multiply-adds that the core could have done on an element meanwhile, a
// measure of the formula that does not depend on the clock.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <swiglu/expr/evaluate.hpp>

#include "layer_case.hpp"
#include "stages.hpp"

namespace {

using swiglu::noalias;

class problem {
 public:
  explicit problem(bench::shape s)
      : h1_h3_(s.tokens, s.intermediate),
        g_h1_g_h3_(s.tokens, s.intermediate),
        h_(s.tokens, s.intermediate),
        g_h_(s.tokens, s.intermediate) {
    swiglu::tensor<float, swiglu::dynamic, swiglu::dynamic> some(s.tokens, s.intermediate);
    bench::fill(some.span(), 4, 1);
    evaluate(on(), noalias(h1_h3_.first()) <<= some, noalias(h1_h3_.second()) <<= some);
    evaluate(on(), noalias(g_h_.view()) <<= some);
  }
  void forward() {
    const auto h1 = h1_h3_.first(), h3 = h1_h3_.second();
    evaluate(on(), noalias(h_.view()) <<= silu(h1) * h3);
  }
  void backward() {
    const auto h1 = h1_h3_.first(), h3 = h1_h3_.second();
    const auto g_h = g_h_.view();
    evaluate(on(), noalias(g_h1_g_h3_.first()) <<= g_h * (h3 * silu_grad(h1)),
             noalias(g_h1_g_h3_.second()) <<= g_h * silu(h1));
  }

 private:
  swiglu::resources<float, swiglu::serial> on() { return {memory_, threads_}; }

  swiglu::paired_panels<float> h1_h3_, g_h1_g_h3_;
  swiglu::panels<float> h_, g_h_;
  swiglu::scratch<float> memory_;
  swiglu::serial threads_;
};

}  // namespace

void bench::add_epilogues() {
  for (const shape s : {shape{16, 16, 16}, shape{64, 64, 192}, shape{512, 1024, 2816}})
    for (const bool forward : {true, false}) {
      const std::string name = name_of("epilogue", forward ? "h" : "g_h1_g_h3", s, 1);
      register_run(name, [=](benchmark::State& state) {
        auto& [p, clock] =
            problem_of(name, [&] { return std::pair(std::make_unique<problem>(s), std::make_unique<slices>(1)); });
        const stretch possible =
            run_in_slices(state, *clock, [&p = *p, forward] { forward ? p.forward() : p.backward(); });
        const auto elements = static_cast<double>(s.tokens * s.intermediate);
        state.counters["elements"] = benchmark::Counter(elements, benchmark::Counter::kIsIterationInvariantRate);
        state.counters["fma_per_element"] = possible.flops / 2 / elements;
      });
    }
}

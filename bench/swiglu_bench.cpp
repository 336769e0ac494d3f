// SPDX-License-Identifier: MIT

// The layer's passes under each schedule. Names: stage/schedule/type/T:tokens/H:hidden/I:intermediate/threads:1.
// Counters: FLOPS (6THI forward, 12THI backward, whatever the schedule really executes), peak_frac (share of the FMA
// peak measured just before and just after in the same process), saved_bytes (kept between forward and backward), bytes
// (workspace).

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include <swiglu/mlp.hpp>

#include "peak.hpp"

namespace {

using swiglu::dims;
using swiglu::dynamic;
using swiglu::schedule;
using swiglu::tensor;

/// Numbers in [-scale, scale), the same in every run.
template <class Span>
void fill(Span values, float scale, std::uint32_t seed) {
  for (float& v : values) {
    seed = seed * 1664525u + 1013904223u;
    v = scale * (static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
  }
}

template <dims Shape, schedule Schedule>
struct problem {
  using layer = swiglu::mlp<float, Shape, Schedule>;
  tensor<float, dynamic, Shape.hidden> x, grad_out, out, grad_x;
  typename layer::weights w;
  typename layer::gradients g;
  typename layer::saved s;
  typename layer::workspace ws;

  explicit problem(std::size_t tokens)
      : x(tokens), grad_out(tokens), out(tokens), grad_x(tokens), s(tokens), ws(tokens) {
    fill(x.span(), 1, 1), fill(grad_out.span(), 1, 2);
    fill(w.gate.span(), 0.03f, 3), fill(w.up.span(), 0.03f, 4), fill(w.down.span(), 0.03f, 5);
    forward(), backward();
  }
  void forward() { layer::forward(x, w, s, ws, out); }
  void backward() { layer::backward(grad_out, x, w, s, ws, grad_x, g); }
};

enum class stage { forward, backward, step };

template <dims Shape, schedule Schedule>
void run(benchmark::State& state, stage what, std::size_t tokens) {
  using layer = swiglu::mlp<float, Shape, Schedule>;
  const auto p = std::make_unique<problem<Shape, Schedule>>(tokens);
  const double peak_before = bench::peak_flops<float>();
  const double begin = bench::seconds();
  for (auto _ : state) {
    if (what != stage::backward) p->forward();
    if (what != stage::forward) p->backward();
    benchmark::ClobberMemory();
  }
  const double elapsed = bench::seconds() - begin;
  const double peak = std::max(peak_before, bench::peak_flops<float>());
  const double flops = (what != stage::backward ? layer::forward_flops(tokens) : 0) +
                       (what != stage::forward ? layer::backward_flops(tokens) : 0);
  state.counters["FLOPS"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["peak_frac"] = flops * static_cast<double>(state.iterations()) / elapsed / peak;
  state.counters["saved_bytes"] = static_cast<double>(p->s.bytes());
  state.counters["bytes"] = static_cast<double>(p->ws.bytes());
}

template <dims Shape, schedule Schedule>
void add(const std::string& variant, std::size_t tokens) {
  for (const auto& [what, name] :
       {std::pair{stage::forward, "forward"}, {stage::backward, "backward"}, {stage::step, "step"}}) {
    const std::string full = std::string(name) + "/" + variant + "/f32/T:" + std::to_string(tokens) +
                             "/H:" + std::to_string(Shape.hidden) + "/I:" + std::to_string(Shape.intermediate) +
                             "/threads:1";
    benchmark::RegisterBenchmark(full.c_str(), run<Shape, Schedule>, what, tokens)
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
  }
}

template <dims Shape>
void add_all(std::initializer_list<std::size_t> tokens) {
  for (const std::size_t t : tokens) {
    add<Shape, schedule::fused>("fused", t);
    add<Shape, schedule::fused_recompute_h>("fused_recompute_h", t);
    add<Shape, schedule::xla>("xla", t);
  }
}

}  // namespace

int main(int argc, char** argv) {
  add_all<dims{.hidden = 16, .intermediate = 16}>({16});
  add_all<dims{.hidden = 64, .intermediate = 192}>({64});
  add_all<dims{.hidden = 1024, .intermediate = 2816}>({1, 7, 33, 100, 512, 1000});
  add_all<dims{.hidden = 2048, .intermediate = 5632}>({1024});
  benchmark::AddCustomContext("swiglu_register_bytes", std::to_string(sizeof(swiglu::pack<float>)));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

// SPDX-License-Identifier: MIT
#pragma once

// What our programs and those of the peers have in common: the shapes, the inputs, the names and the counters, so that
// nothing but the implementation differs. Names: stage/variant/type/T:tokens/H:hidden/I:intermediate/threads:n; one
// product [rows, depth] [depth, columns] has T:rows/H:depth/I:columns. Counters:
//
//     FLOPS        floating-point operations a second: 6THI forward, 12THI backward, whatever is really executed
//     peak_frac    share of what the cores could have done in the same time with multiply-adds on registers, where
//     nobody
//                  interrupts (slices.hpp)
//     read_frac    forward of at most 8 tokens: the bytes of the three weights, as a share of what the cores could have
//                  read of the same memory in the same time
//     saved_bytes  kept between forward and backward
//     bytes        scratch memory

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include "slices.hpp"

namespace bench {

struct shape {
  std::size_t tokens, hidden, intermediate;
};

/// The shapes that are compared, the small ones first.
inline constexpr shape shapes[] = {{16, 16, 16},      {64, 64, 192},      {1, 1024, 2816},   {7, 1024, 2816},
                                   {33, 1024, 2816},  {100, 1024, 2816},  {512, 320, 853},   {512, 768, 2048},
                                   {512, 1024, 2816}, {1000, 1024, 2816}, {1024, 2048, 5632}};
/// Those that are compared on two threads too.
inline constexpr shape shapes_of_two_threads[] = {{512, 1024, 2816}, {1024, 2048, 5632}};

enum class stage { forward, backward, step };

/// Numbers in [-scale, scale), the same in every run.
template <class Span>
void fill(Span values, float scale, std::uint32_t seed) {
  for (float& v : values) {
    seed = seed * 1664525u + 1013904223u;
    v = scale * (static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
  }
}

/// The inputs of a step, the same for everybody.
template <class X, class W1, class W2>
void fill_inputs(X& x, X& grad_out, W1& gate, W1& up, W2& down) {
  fill(x.span(), 1, 1), fill(grad_out.span(), 1, 2);
  fill(gate.span(), 0.03f, 3), fill(up.span(), 0.03f, 4), fill(down.span(), 0.03f, 5);
}

inline std::string name_of(const std::string& stage, const std::string& variant, shape s, std::size_t threads) {
  return stage + "/" + variant + "/f32/T:" + std::to_string(s.tokens) + "/H:" + std::to_string(s.hidden) +
         "/I:" + std::to_string(s.intermediate) + "/threads:" + std::to_string(threads);
}

/// FLOPs of a forward pass.
constexpr double forward_flops(shape s) {
  return 6.0 * static_cast<double>(s.tokens) * static_cast<double>(s.hidden) * static_cast<double>(s.intermediate);
}

/// Runs `step`, of `flops` FLOPs, and reports the two counters that everything has.
template <class Step>
stretch run_step(benchmark::State& state, slices& clock, double flops, Step step) {
  const stretch possible = run_in_slices(state, clock, step);
  state.counters["FLOPS"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["peak_frac"] = flops / possible.flops;
  return possible;
}

/// A problem has forward(), backward(), weights(), saved_bytes() and bytes().
template <class Problem>
void run(benchmark::State& state, stage what, shape s, slices& clock, Problem& p) {
  const double flops = forward_flops(s) * (what == stage::forward ? 1 : what == stage::backward ? 2 : 3);
  const stretch possible = run_step(state, clock, flops, [&] {
    if (what != stage::backward) p.forward();
    if (what != stage::forward) p.backward();
  });
  if (clock.probes_bandwidth()) {
    double bytes = 0;
    for (const std::span<const float> w : p.weights()) bytes += static_cast<double>(w.size_bytes());
    state.counters["read_frac"] = bytes / possible.bytes;
  }
  state.counters["saved_bytes"] = static_cast<double>(p.saved_bytes());
  state.counters["bytes"] = static_cast<double>(p.bytes());
}

/// The problem that was measured last: Google Benchmark calls a function several times before it is content, and the
/// large ones take longer to make than to measure.
inline std::pair<std::string, std::shared_ptr<void>>& last_problem() {
  static std::pair<std::string, std::shared_ptr<void>> last;
  return last;
}
template <class Make>
auto& problem_of(const std::string& name, const Make& make) {
  using kept = decltype(make());
  auto& [last, memory] = last_problem();
  if (last != name) {
    memory.reset();
    memory = std::make_shared<kept>(make());
    last = name;
  }
  return *static_cast<kept*>(memory.get());
}

/// Registers a benchmark of `run(state)` that sets its own times.
template <class Run>
void register_run(const std::string& name, Run run) {
  benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMicrosecond)->UseManualTime();
}

/// Registers the three stages. `make()` returns a pointer to a problem.
template <class Make>
void add(const std::string& variant, shape s, std::size_t threads, Make make) {
  for (const auto& [what, stage_name] :
       {std::pair{stage::forward, "forward"}, {stage::backward, "backward"}, {stage::step, "step"}}) {
    const std::string name = name_of(stage_name, variant, s, threads);
    const stage which = what;
    register_run(name, [=](benchmark::State& state) {
      auto& [problem, clock] = problem_of(name, [&] {
        auto p = make();
        const double begin = seconds();
        p->forward();  // starts the threads, and is what backward needs
        const double forward = seconds() - begin;
        std::function<double()> bandwidth;
        if (which == stage::forward && s.tokens <= 8) bandwidth = read_bandwidth(p->weights(), threads);
        auto c = std::make_unique<slices>(threads, bandwidth);
        // A long step need not be run only to see how long it is.
        if (forward > 10e-3)
          c->seconds_of_step() = forward * (which == stage::forward ? 1 : which == stage::backward ? 2 : 3);
        return std::pair(std::move(p), std::move(c));
      });
      run(state, which, s, *clock, *problem);
    });
  }
}

inline int run_all(int argc, char** argv) {
  benchmark::AddCustomContext("register_bytes", std::to_string(sizeof(swiglu::pack<float>)));
#if defined(__clang__)
  benchmark::AddCustomContext("compiler", __VERSION__);
#else
  benchmark::AddCustomContext("compiler", "g++ " __VERSION__);
#endif
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  last_problem() = {};
  return 0;
}

}  // namespace bench

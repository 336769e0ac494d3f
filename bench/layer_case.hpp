// SPDX-License-Identifier: MIT
#pragma once

// What our programs and those of the peers have in common: the shapes, the inputs, the names and the counters, so that
// nothing but the implementation differs. Names: stage/variant/type/T:tokens/H:hidden/I:intermediate/threads:n.
// Counters: FLOPS (6THI forward, 12THI backward, whatever is really executed), peak_frac (share of the FMA peak
// measured just before and just after in the same process, on as many threads), saved_bytes (kept between forward and
// backward), bytes (scratch memory).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include "peak.hpp"

namespace bench {

struct shape {
  std::size_t tokens, hidden, intermediate;
};

/// The shapes that are compared, the small ones first.
inline constexpr shape shapes[] = {{16, 16, 16},      {64, 64, 192},      {1, 1024, 2816},   {7, 1024, 2816},
                                   {33, 1024, 2816},  {100, 1024, 2816},  {512, 320, 853},   {512, 768, 2048},
                                   {512, 1024, 2816}, {1000, 1024, 2816}, {1024, 2048, 5632}};

enum class stage { forward, backward, step };

/// Numbers in [-scale, scale), the same in every run.
template <class Span>
void fill(Span values, float scale, std::uint32_t seed) {
  for (float& v : values) {
    seed = seed * 1664525u + 1013904223u;
    v = scale * (static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
  }
}

/// A problem has forward(), backward(), saved_bytes() and bytes().
template <class Problem>
void run(benchmark::State& state, stage what, shape s, std::size_t threads, Problem& p) {
  p.forward(), p.backward();  // touches all memory
  const double peak_before = peak_flops<float>(threads);
  const double begin = seconds();
  for (auto _ : state) {
    if (what != stage::backward) p.forward();
    if (what != stage::forward) p.backward();
    benchmark::ClobberMemory();
  }
  const double elapsed = seconds() - begin;
  const double peak = std::max(peak_before, peak_flops<float>(threads));
  const double forward = 6.0 * static_cast<double>(s.tokens) * static_cast<double>(s.hidden * s.intermediate);
  const double flops = forward * (what == stage::forward ? 1 : what == stage::backward ? 2 : 3);
  state.counters["FLOPS"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["peak_frac"] = flops * static_cast<double>(state.iterations()) / elapsed / peak;
  state.counters["saved_bytes"] = static_cast<double>(p.saved_bytes());
  state.counters["bytes"] = static_cast<double>(p.bytes());
}

/// Registers the three stages. `make()` returns a pointer to a problem.
template <class Make>
void add(const std::string& variant, shape s, std::size_t threads, Make make) {
  for (const auto& [what, name] :
       {std::pair{stage::forward, "forward"}, {stage::backward, "backward"}, {stage::step, "step"}}) {
    const std::string full = std::string(name) + "/" + variant + "/f32/T:" + std::to_string(s.tokens) +
                             "/H:" + std::to_string(s.hidden) + "/I:" + std::to_string(s.intermediate) +
                             "/threads:" + std::to_string(threads);
    const stage which = what;
    benchmark::RegisterBenchmark(full.c_str(),
                                 [=](benchmark::State& state) {
                                   const auto p = make();
                                   run(state, which, s, threads, *p);
                                 })
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
  }
}

inline int run_all(int argc, char** argv) {
  benchmark::AddCustomContext("register_bytes", std::to_string(sizeof(swiglu::pack<float>)));
  benchmark::AddCustomContext("compiler", __VERSION__);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace bench

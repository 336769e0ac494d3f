// SPDX-License-Identifier: MIT

// The denominators themselves: what the machine can do. Names: peak/fma/f32/threads:n, and read or
// copy/best/f32/N:elements of the footprint/threads:n, as bytes_per_second.

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <swiglu/tensor.hpp>

#include "bandwidth.hpp"
#include "layer_case.hpp"
#include "stages.hpp"

namespace {

/// Every iteration is a probe, which says itself what it measured.
template <class Probe>
void report(benchmark::State& state, const char* counter, const Probe& probe) {
  std::vector<double> rates;
  for (auto _ : state) {
    const double begin = bench::seconds();
    rates.push_back(probe());
    state.SetIterationTime(bench::seconds() - begin);
  }
  state.counters[counter] = bench::quantile(rates, 0.5);
}

std::string named(const std::string& what, std::size_t elements, std::size_t threads) {
  return what + "/f32/N:" + std::to_string(elements) + "/threads:" + std::to_string(threads);
}

}  // namespace

void bench::add_peaks() {
  for (const std::size_t threads : {1U, 2U}) {
    register_run("peak/fma/f32/threads:" + std::to_string(threads),
                 [=](benchmark::State& state) { report(state, "FLOPS", [=] { return peak_flops<float>(threads); }); });
    for (const std::size_t elements : {std::size_t{1} << 17, std::size_t{1} << 23, std::size_t{1} << 26}) {
      register_run(named("read/best", elements, threads), [=](benchmark::State& state) {
        swiglu::tensor<float, swiglu::dynamic> memory(elements);
        const std::span<const float> all[] = {memory.span()};
        const auto rate = read_bandwidth(all, threads);
        report(state, "bytes_per_second", rate);
      });
      register_run(named("copy/best", elements, threads), [=](benchmark::State& state) {
        swiglu::tensor<float, swiglu::dynamic> memory(elements);
        std::vector<std::vector<std::span<float>>> parts(threads);
        for (std::size_t t = 0; t < threads; ++t)
          parts[t] = {memory.span().subspan(elements / threads * t, elements / threads)};
        const bandwidth<float> rate(std::move(parts));
        report(state, "bytes_per_second", rate);
      });
    }
  }
}

// SPDX-License-Identifier: MIT

// The seed program on a 2 x 2 mesh of threads, under XLA's schedule and under the fused one: what each device computed
// at each of the program's steps, against the golden values, and every all-reduce with its groups.

#include <cstdio>
#include <exception>
#include <string>

#include "seed.hpp"

namespace {

constexpr double tolerance = 2e-6;

/// The groups of an axis, as replica_groups are written: ranks that differ in this coordinate only.
std::string groups_of(bool data_axis) {
  std::string text = "{";
  const std::size_t outer = data_axis ? seed::tensor_ranks : seed::data_ranks;
  const std::size_t inner = data_axis ? seed::data_ranks : seed::tensor_ranks;
  for (std::size_t i = 0; i < outer; ++i) {
    text += i == 0 ? "{" : ",{";
    for (std::size_t j = 0; j < inner; ++j) {
      const std::size_t rank = data_axis ? j * seed::tensor_ranks + i : i * seed::tensor_ranks + j;
      text += j == 0 ? "" : ",";
      text += std::to_string(rank);
    }
    text += "}";
  }
  return text + "}";
}

template <class Devices>
bool print_steps(const char* title, const Devices& devices, std::vector<seed::step> seed::device::*steps) {
  bool good = true;
  std::printf("  %-30s%-18s%11s%12s%12s%12s\n", title, "value", "device 0", "device 1", "device 2", "device 3");
  for (std::size_t i = 0; i < (devices[0].*steps).size(); ++i) {
    const seed::step& first = (devices[0].*steps)[i];
    std::printf("  %2zu %-27s%-18s", i + 1, first.operation.c_str(),
                (first.value + (first.stored ? "" : " *")).c_str());
    for (const auto& device : devices) {
      const double difference = (device.*steps)[i].difference;
      good = good && difference <= tolerance;  // false for NaN
      std::printf("%11.1e%s", difference, difference <= tolerance ? " " : "!");
    }
    std::printf("\n");
  }
  return good;
}

bool print_calls(const char* axis, bool data_axis, const std::vector<recorded_call>& calls) {
  for (const recorded_call& call : calls) {
    std::printf("  all-reduce over the %-6s axis, groups %s, %zu tensor%s in one call:", axis,
                groups_of(data_axis).c_str(), call.buffers.size(), call.buffers.size() == 1 ? "" : "s");
    for (const auto& buffer : call.buffers) std::printf(" %s[%zu]", buffer.name.c_str(), buffer.before.size());
    std::printf("\n");
  }
  return calls.size() == 1;  // the program has one on each axis
}

template <swiglu::schedule Schedule>
bool show(const char* name, const seed::golden& gold) {
  const auto devices = seed::run<Schedule>(gold);
  std::printf("schedule::%s\n", name);
  bool good = print_steps("forward", devices, &seed::device::forward);
  good = print_steps("backward", devices, &seed::device::backward) && good;
  good = print_calls("data", true, devices[0].data_calls) && good;
  good = print_calls("tensor", false, devices[0].tensor_calls) && good;
  std::printf("  %s\n\n", good ? "agrees" : "DIFFERS");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string argument = argc > 1 ? argv[1] : "tests/golden/mesh2x2";
  if (argc > 2 || argument == "--help") {
    std::printf(
        "usage: mlp2 [DIRECTORY]\nRuns the seed program and compares it with the golden files in DIRECTORY "
        "(default tests/golden/mesh2x2).\nExit status: 0 if all agree, 1 if anything differs, 2 if it could "
        "not run.\n");
    return argc > 2 ? 2 : 0;
  }
  try {
    const seed::golden gold(argument);
    std::printf(
        "Largest norm-wise relative difference from float64; at most %.0e is good.\n"
        "* never stored by this schedule: recomputed from its stored values with the same kernels.\n\n",
        tolerance);
    const bool xla = show<swiglu::schedule::xla>("xla", gold);
    const bool fused = show<swiglu::schedule::fused>("fused", gold);
    return xla && fused ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "mlp2: %s\n", e.what());
    return 2;
  }
}

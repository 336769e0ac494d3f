// SPDX-License-Identifier: MIT
#pragma once

// The latency of a transport: how long two ranks take to sum 64 floats, over and over. Every rank calls `latency_of`;
// nothing but the library's communicator is used, so that all transports are measured alike.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <span>
#include <vector>

namespace bench {

/// Seconds a call, one number for each round of calls.
template <class Communicator>
std::vector<double> latency_of(Communicator& c, std::size_t rounds = 41, std::size_t calls = 1000) {
  std::array<float, 64> values{};
  std::vector<double> seconds;
  for (std::size_t round = 0; round <= rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < calls; ++i) c.all_reduce(std::span<float>(values));
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (round > 0) seconds.push_back(took / static_cast<double>(calls));  // the first one connects and warms up
  }
  return seconds;
}

inline void print_latency(const char* transport, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](std::size_t quarter) { return 1e6 * seconds[(seconds.size() - 1) * quarter / 4]; };
  std::printf("all_reduce/%s/f32/N:64/ranks:2  %.2f us a call (%.2f to %.2f)\n", transport, at(2), at(1), at(3));
}

}  // namespace bench

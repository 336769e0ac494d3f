// SPDX-License-Identifier: MIT
#pragma once

// Random numbers that are the same everywhere. The standard fixes the output of std::mt19937_64 but not that of its
// distributions, so the conversions are written here. Every use draws from a stream of its own, named by (seed,
// purpose, index): which ranks there are, and what else was drawn before, changes nothing.

#include <cstdint>
#include <limits>
#include <random>

namespace char_lm {

class random_stream {
 public:
  enum class purpose : std::uint64_t { weights = 1, batch = 2, sample = 3 };

  /// `index`: the number of the parameter, of the step, of the sample.
  random_stream(std::uint64_t seed, purpose what, std::uint64_t index)
      : engine_(mix(mix(mix(seed) + static_cast<std::uint64_t>(what)) + index)) {}

  /// In [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  /// In [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// In [0, n), all equally likely: what lies beyond the largest multiple of n is drawn again.
  std::uint64_t below(std::uint64_t n) {
    constexpr std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t drawn = engine_();
    while (drawn > max - max % n - 1) drawn = engine_();
    return drawn % n;
  }

 private:
  // The finaliser of splitmix64 (Steele, Lea, Flood 2014): neighbouring seeds give unrelated streams.
  static std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  std::mt19937_64 engine_;
};

}  // namespace char_lm

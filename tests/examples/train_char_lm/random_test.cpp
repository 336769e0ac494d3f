// SPDX-License-Identifier: MIT
#include "random.hpp"

#include <array>
#include <cstdint>

#include <doctest/doctest.h>

using char_lm::random_stream;
using enum random_stream::purpose;

TEST_CASE("a stream is the same everywhere, and different for every seed, purpose and index") {
  // Computed by a program of its own: another standard library has to give them too.
  random_stream stream(1, batch, 0);
  CHECK(stream.below(1'000'000'007) == 357648063);
  CHECK(stream.uniform() == 1611881361531938 * 0x1p-53);

  const auto first = [](std::uint64_t seed, random_stream::purpose what, std::uint64_t index) {
    return random_stream(seed, what, index).below(std::uint64_t{1} << 62);
  };
  CHECK(first(1, batch, 0) == first(1, batch, 0));
  CHECK(first(1, batch, 0) != first(2, batch, 0));
  CHECK(first(1, batch, 0) != first(1, batch, 1));
  CHECK(first(1, batch, 0) != first(1, weights, 0));
  CHECK(first(1, batch, 1) != first(2, batch, 0));
}

TEST_CASE("the numbers stay in their ranges and reach all of them") {
  random_stream stream(7, sample, 3);
  std::array<int, 6> seen{};
  double sum = 0;
  for (int i = 0; i < 6000; ++i) {
    ++seen.at(stream.below(6));
    const double x = stream.uniform(-2, 4);
    CHECK_UNARY(x >= -2 && x < 4);
    sum += x;
  }
  for (const int n : seen) CHECK_UNARY(n > 850 && n < 1150);
  CHECK(sum / 6000 == doctest::Approx(1).epsilon(0.05));
  CHECK(stream.below(1) == 0);
}

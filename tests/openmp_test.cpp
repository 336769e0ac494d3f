// SPDX-License-Identifier: MIT

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <vector>

#include <swiglu/exec/openmp.hpp>
#include <swiglu/expr/evaluate.hpp>

#include "support/compare.hpp"
#include "support/random.hpp"

using namespace swiglu;
using test::dynamic_tensor;

TEST_CASE("every part is called once, and there is at least one thread") {
  CHECK(openmp().threads() >= 1);
  CHECK(openmp(0).threads() == 1);
  for (const std::size_t threads : test::sizes{1, 2, 3, 8})
    for (std::size_t n = 0; n <= threads; ++n) {
      const openmp team(threads);
      CHECK(team.threads() == threads);
      std::vector<std::atomic<int>> calls(n);
      team.run(n, [&](std::size_t i) { ++calls[i]; });
      for (const auto& c : calls) CHECK(c == 1);
    }
}

TEST_CASE("the same bits on any number of threads") {
  const auto x = test::random_tensor<float>(50, 300, 1), u = test::random_tensor<float>(300, 100, 2);
  dynamic_tensor<float> expected(50, 100), to(50, 100);
  evaluate(expected <<= silu(product(x, u)));
  scratch<float> memory;
  for (const std::size_t threads : test::sizes{1, 2, 3, 8}) {
    openmp team(threads);
    evaluate(to <<= 0);
    evaluate(resources{memory, team}, to <<= silu(product(x, u)));
    CHECK(test::same_bits(to, expected));
  }
}

// SPDX-License-Identifier: MIT
// The transport of examples/custom_communicator when a rank fails: the processes end, soon, and as failures.

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "processes.hpp"
#include "star.hpp"

namespace {

using axes_of = swiglu::mesh<example::star, example::star>;

void sum(example::star& c, std::size_t count) {
  std::vector<float> v(count, 1.0F);
  c.all_reduce(std::span<float>(v));
  if (count > 0 && v.back() != static_cast<float>(c.size())) throw std::logic_error("wrong sum");
}

/// Whether all processes ended well; they have to end in five seconds.
template <class Fn>
bool ends_well(int data, int tensor, Fn fn) {
  const auto start = std::chrono::steady_clock::now();
  const bool good = example::run_processes(data, tensor, fn);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  return good;
}

}  // namespace

TEST_CASE("processes that do the same end well") {
  for (const auto& [d, t] : {std::pair(1, 1), std::pair(2, 1), std::pair(2, 2), std::pair(1, 4)})
    CHECK(ends_well(d, t, [](axes_of axes) {
      for (const std::size_t count : {0U, 1U, 1000U, 100000U}) sum(axes.data, count), sum(axes.tensor, count);
      return true;
    }));
}

TEST_CASE("a rank that throws, that leaves, that calls with another count, that is killed") {
  for (int odd = 0; odd < 4; ++odd) {
    CHECK_FALSE(ends_well(2, 2, [&](axes_of axes) {
      sum(axes.data, 10);
      if (axes.rank() == odd) throw std::runtime_error("thrown on purpose");
      for (int i = 0; i < 10; ++i) sum(axes.data, 1000), sum(axes.tensor, 1000);
      return true;
    }));
    CHECK_FALSE(ends_well(2, 2, [&](axes_of axes) {
      if (axes.rank() == odd) return true;
      for (int i = 0; i < 10; ++i) sum(axes.tensor, 1000), sum(axes.data, 1000);
      return true;
    }));
    CHECK_FALSE(ends_well(2, 2, [&](axes_of axes) {
      sum(axes.data, axes.rank() == odd ? 10 : 11);
      return true;
    }));
    CHECK_FALSE(ends_well(2, 2, [&](axes_of axes) {
      sum(axes.tensor, 10);
      if (axes.rank() == odd) std::abort();
      sum(axes.tensor, 10), sum(axes.data, 10);
      return true;
    }));
  }
}

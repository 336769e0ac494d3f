// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include <swiglu/expr/evaluate.hpp>

#include "support/compare.hpp"
#include "support/random.hpp"

namespace gate_test {

using namespace swiglu;
using test::dynamic_tensor;

inline constexpr std::size_t rows = 5, cols = 37;

template <class T>
struct inputs {
  dynamic_tensor<T> a = test::random_tensor<T>(rows, cols, 1, -8, 8), b = test::random_tensor<T>(rows, cols, 2, -8, 8);
  dynamic_tensor<T> c = test::random_tensor<T>(rows, cols, 3, -8, 8),
                    square = test::random_tensor<T>(cols, rows, 4, -8, 8);
};

/// x evaluated by itself.
template <class T, class X>
dynamic_tensor<T> alone(const X& x) {
  dynamic_tensor<T> to(rows, cols);
  evaluate(to <<= x);
  return to;
}

/// One kernel of several assignments against one kernel for each.
template <class T, class... X>
test::tally separately(const X&... x) {
  std::array<dynamic_tensor<T>, sizeof...(X)> together;
  for (auto& t : together) t = dynamic_tensor<T>(rows, cols);
  test::tally cases;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    evaluate((together[I] <<= x)...);
    (cases(test::same_bits(together[I], alone<T>(x)), "assignment", I), ...);
  }
  (std::index_sequence_for<X...>{});
  return cases;
}

}  // namespace gate_test

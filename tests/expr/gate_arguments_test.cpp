// SPDX-License-Identifier: MIT
// Gates of arguments that are formulas: which of them are the same.

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>

#include "gates.hpp"

using namespace gate_test;

TEST_CASE("gates of formulas that differ in a number, a function or a transposition") {
  using T = float;
  const inputs<T> in;
  CHECK(separately<T>(silu(in.a * T(2)), silu_grad(in.a * T(2))));
  CHECK(separately<T>(silu(in.a * T(2)), silu(in.a * T(3))));
  CHECK(separately<T>(silu(in.a + in.b), silu(in.a - in.b)));
  CHECK(separately<T>(silu(in.a + in.b), silu(in.b + in.a), silu(in.a + in.c)));
  CHECK(separately<T>(silu(transpose(in.square)), silu(in.a), sigmoid(transpose(in.square))));
  const auto scaled = [](T by) { return [by](auto x) { return x * decltype(x)(by); }; };
  CHECK(separately<T>(silu(map(scaled(2), in.a)), silu(map(scaled(3), in.a))));
  CHECK(separately<T>(silu(in.a), silu(-in.a)));
  CHECK(separately<T>(silu(in.a + std::numeric_limits<T>::quiet_NaN()), silu(in.a + T(1))));
}

TEST_CASE("numbers that are equal but not the same: 0 and -0") {
  using T = float;
  dynamic_tensor<T> a(1, 3), plus(1, 3), minus(1, 3);
  evaluate(a <<= 1);
  evaluate(plus <<= silu(a / T(0)), minus <<= silu(a / T(-0.0)));
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(plus(0, c) == std::numeric_limits<T>::infinity());
    CHECK(minus(0, c) == 0);
  }
}

TEST_CASE("gates within gates") {
  using T = float;
  const inputs<T> in;
  CHECK(separately<T>(silu(sigmoid(in.a)), silu_grad(sigmoid(in.a)), sigmoid(in.a)));
  CHECK(separately<T>(sigmoid(in.a), silu(silu(sigmoid(in.a)) * in.b)));
  CHECK(separately<T>(silu(silu(in.a)), silu(silu(in.b))));
  CHECK(separately<T>(silu(silu(in.a) + sigmoid(in.a)), silu(silu(in.a) + sigmoid(in.b))));
  const auto inner = alone<T>(silu(in.a));
  CHECK(test::same_bits(alone<T>(silu_grad(silu(in.a))), alone<T>(silu_grad(inner))));
}

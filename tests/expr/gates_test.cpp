// SPDX-License-Identifier: MIT
// Gates share a sigmoid if, and only if, they have the same argument: the same kernel written with one assignment at a
// time, where there is nothing to share, gives the same bits.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include <swiglu/expr/evaluate.hpp>

#include "support/compare.hpp"
#include "support/random.hpp"

using namespace swiglu;
using test::dynamic_tensor;
using any_view = view<const float, dynamic, dynamic>;

namespace {

constexpr std::size_t rows = 5, cols = 37;

struct inputs {
  dynamic_tensor<float> a = test::random_tensor<float>(rows, cols, 1, -8, 8);
  dynamic_tensor<float> b = test::random_tensor<float>(rows, cols, 2, -8, 8);
  dynamic_tensor<float> c = test::random_tensor<float>(rows, cols, 3, -8, 8);
};

/// One kernel of several assignments against one kernel for each.
template <class T = float, class... X>
test::tally separately(const X&... x) {
  std::array<dynamic_tensor<T>, sizeof...(X)> together, alone;
  for (auto* results : {&together, &alone})
    for (auto& t : *results) t = dynamic_tensor<T>(rows, cols);
  test::tally cases;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    evaluate((together[I] <<= x)...);
    (evaluate(alone[I] <<= x), ...);
    (cases(test::same_bits(together[I], alone[I]), "assignment", I), ...);
  }
  (std::index_sequence_for<X...>{});
  return cases;
}
/// Gates of two arguments of one type. (Of one type, so that many cases share one kernel: they are slow to compile.)
template <class X>
test::tally two_gates(const X& x, const X& y) {
  return separately(silu(x), silu_grad(y));
}

}  // namespace

TEST_CASE_TEMPLATE("three gates of one argument", T, float, double) {
  const auto a = test::random_tensor<T>(rows, cols, 1, -8, 8);
  CHECK(separately<T>(silu(a), sigmoid(a), silu_grad(a)));
}

TEST_CASE("two gates in one formula") {
  // A product, since a compiler may contract the last multiplication of silu with a sum.
  const inputs in;
  dynamic_tensor<float> both(rows, cols), f(rows, cols), g(rows, cols), expected(rows, cols);
  evaluate(both <<= silu(in.a) * silu_grad(in.a));
  evaluate(f <<= silu(in.a), g <<= silu_grad(in.a));
  evaluate(expected <<= f * g);
  CHECK(test::same_bits(both, expected));
}

TEST_CASE("gates of tensors of one type, the same and different ones") {
  const inputs in;
  CHECK(separately(silu(in.a), sigmoid(in.b), silu_grad(in.a)));
  CHECK(separately(silu(in.b), sigmoid(in.a), silu_grad(in.a)));
  CHECK(separately(silu(in.a), sigmoid(in.a), silu_grad(in.b)));
  CHECK(separately(silu(in.a), sigmoid(in.b), silu_grad(in.c)));
}

TEST_CASE("gates of views that begin alike or have the same pitch") {
  const dynamic_tensor<float> a = test::random_tensor<float>(2 * rows, 2 * cols, 1);
  const any_view near(a.data(), {rows, cols}, cols), far(a.data(), {rows, cols}, 2 * cols);
  const any_view beside(a.data() + cols, {rows, cols}, 2 * cols);
  CHECK(two_gates(near, near));
  CHECK(two_gates(near, far));
  CHECK(two_gates(far, beside));
}

TEST_CASE("gates of formulas of one type") {
  const inputs in;
  CHECK(two_gates(in.a + in.b, in.a + in.b));
  CHECK(two_gates(in.a + in.b, in.b + in.a));
  CHECK(two_gates(in.a + in.b, in.a + in.c));
  const auto scaled = [](float by) { return [by](auto x) { return x * decltype(x)(by); }; };
  CHECK(two_gates(map(scaled(2), in.a), map(scaled(3), in.a)));
}

TEST_CASE("gates of formulas with numbers, equal ones and others") {
  const inputs in;
  CHECK(two_gates(in.a / 2, in.a / 2));
  CHECK(two_gates(in.a / 2, in.a / 3));
  CHECK(two_gates(in.a / std::numeric_limits<float>::quiet_NaN(), in.a / 1));
  CHECK(two_gates(in.a / 0.0f, in.a / -0.0f));  // which are equal, but not the same
}

TEST_CASE("gates of formulas of different types") {
  const inputs in;
  CHECK(separately(silu(in.a + in.b), silu_grad(in.a - in.b)));
}

TEST_CASE("gates of transposes and of broadcast vectors") {
  const auto s = test::random_tensor<float>(cols, rows, 1), t = test::random_tensor<float>(cols, rows, 2);
  CHECK(two_gates(transpose(s), transpose(s)));
  CHECK(two_gates(transpose(s), transpose(t)));
  const auto u = test::random_tensor<float>(1, cols, 3), v = test::random_tensor<float>(1, cols, 4);
  CHECK(two_gates(broadcast_row(u), broadcast_row(u)));
  CHECK(two_gates(broadcast_row(u), broadcast_row(v)));
}

TEST_CASE("gates within gates") {
  const inputs in;
  CHECK(two_gates(silu(in.a), silu(in.a)));
  CHECK(two_gates(silu(in.a), silu(in.b)));
  CHECK(separately(sigmoid(in.a), silu(silu(sigmoid(in.a)) * in.b)));
  dynamic_tensor<float> nested(rows, cols), inner(rows, cols), outer(rows, cols);
  evaluate(nested <<= silu(silu(in.a)));
  evaluate(inner <<= silu(in.a));
  evaluate(outer <<= silu(inner));
  CHECK(test::same_bits(nested, outer));
}

TEST_CASE("special values go through every register and its remainder") {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float largest = std::numeric_limits<float>::max();
  for (std::size_t at = 0; at < cols; ++at)
    for (const float special : {infinity, -infinity, nan, largest, -largest}) {
      dynamic_tensor<float> a(1, cols), h(1, cols), s(1, cols), g(1, cols);
      a(0, at) = special;
      evaluate(h <<= silu(a), s <<= sigmoid(a), g <<= silu_grad(a));
      const auto lane = [](const pack<float>& v) {
        float lanes[pack<float>::size];
        v.store(lanes);
        return lanes[0];
      };
      const auto same = [](float y, float z) { return test::same_bits(y, z) || (std::isnan(y) && std::isnan(z)); };
      bool right = true;
      for (std::size_t c = 0; c < cols; ++c) {
        const pack<float> x(a(0, c));
        right = right && same(h(0, c), lane(silu(x))) && same(s(0, c), lane(sigmoid(x)));
        right = right && same(g(0, c), lane(silu_grad(x)));
        right = right && (c == at ? std::isnan(h(0, c)) == std::isnan(special) : h(0, c) == 0);
      }
      CHECK(right);
    }
}

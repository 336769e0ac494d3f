// SPDX-License-Identifier: MIT
// The layer and what it is made of, on an instruction set that is not this machine's: built once for each of several,
// with SWIGLU_EXPECTED_ABI to prove that the build took the flags it was given. Small, to be compiled so often.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include <swiglu/mlp.hpp>

#include "mlp/step.hpp"
#include "support/ulp.hpp"

using swiglu::pack;

static_assert(std::is_same_v<pack<float>, swiglu::SWIGLU_EXPECTED_ABI::pack<float>>);

namespace {

template <class T>
T first_lane(const pack<T>& p) {
  T lanes[pack<T>::size];
  p.store(lanes);
  return lanes[0];
}

template <class T>
using bound_of = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// The worst error of f, of numbers and of packs, against `exact` between low and high.
template <class T, class F, class Exact>
double worst(F f, Exact exact, double low, double high) {
  test::worst_error<T> found;
  for (int i = 0; i <= 4000; ++i) {
    const T x = static_cast<T>(low + (high - low) * i / 4000);
    const auto expected = exact(static_cast<bound_of<T>>(x));
    found.add(x, test::ulps(f(x), expected));
    found.add(x, test::ulps(first_lane(f(pack<T>(x))), expected));
  }
  return found.error;
}

template <class Layer>
void check_step(std::size_t tokens) {
  CAPTURE(tokens);
  const test::batch_of<Layer> b(tokens, tokens);
  const auto r = test::step<Layer>(b);
  CHECK(test::agrees(r, b.exact()));
  CHECK(test::same_bits(r, test::step<Layer>(b)));
}

}  // namespace

TEST_CASE_TEMPLATE("forward and backward agree with the reference in double", T, float, double) {
  using narrow = swiglu::mlp<T, swiglu::dims{.hidden = 3, .intermediate = 5}>;
  using tails = swiglu::mlp<T, swiglu::dims{.hidden = 37, .intermediate = 71}>;
  for (const std::size_t tokens : test::sizes{0, 1, 7}) check_step<narrow>(tokens);
  for (const std::size_t tokens : test::sizes{1, 5, 13, 33}) check_step<tails>(tokens);
}

TEST_CASE_TEMPLATE("a product is summed in ascending k by this build's own multiply-add", T, float, double) {
  test::tally cases;
  const auto a = test::random_tensor<T>(7, 65, 1), b = test::random_tensor<T>(65, 35, 2);
  test::dynamic_tensor<T> to(7, 35);
  evaluate(to <<= product(a, b));
  for (std::size_t i = 0; i < 7; ++i)
    for (std::size_t j = 0; j < 35; ++j) {
      T sum = 0;
      for (std::size_t k = 0; k < 65; ++k) sum = swiglu::fma(a(i, k), b(k, j), sum);
      cases(test::same_bits(to(i, j), sum), i, j);
    }
  CHECK(cases);
}

TEST_CASE_TEMPLATE("exp, silu and its derivative are as accurate as promised", T, float, double) {
  constexpr double low = std::is_same_v<T, float> ? -87 : -700;
  CHECK(worst<T>([](auto x) { return swiglu::exp(x); }, [](auto x) { return std::exp(x); }, low, 88) <= 2);
  CHECK(worst<T>([](auto x) { return swiglu::silu(x); }, [](auto x) { return test::silu(x); }, low, 100) <= 4);
  CHECK(worst<T>([](auto x) { return swiglu::silu_grad(x); }, [](auto x) { return test::silu_grad(x); }, -1, 100) <= 8);
}

TEST_CASE_TEMPLATE("the ends: NaN stays, nothing else becomes one", T, float, double) {
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const auto both = [](auto f, T x, T expected) {
    const auto same = [&](T y) { return std::isnan(expected) ? std::isnan(y) : y == expected; };
    return same(f(x)) && same(first_lane(f(pack<T>(x))));
  };
  const auto exp = [](auto x) { return swiglu::exp(x); };
  const auto silu = [](auto x) { return swiglu::silu(x); };
  const auto silu_grad = [](auto x) { return swiglu::silu_grad(x); };
  CHECK(both(exp, -infinity, 0));
  CHECK(both(exp, infinity, infinity));
  CHECK(both(exp, nan, nan));
  CHECK(both(silu, -infinity, 0));
  CHECK(both(silu, infinity, infinity));
  CHECK(both(silu, nan, nan));
  CHECK(both(silu_grad, -infinity, 0));
  CHECK(both(silu_grad, infinity, 1));
  CHECK(both(silu_grad, nan, nan));
}

// SPDX-License-Identifier: MIT
// e^x for every float there is, compared with std::exp in double.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <thread>

#include <swiglu/exp.hpp>

#include "support/build.hpp"
#include "support/compare.hpp"
#include "support/ulp.hpp"

namespace {

using floats = swiglu::pack<float>;
constexpr std::uint32_t stride = test::fast_build ? 1 : 499;

/// The worst error on the floats from low to high. `reference` computes in double. Loops of fixed length, and errors in
/// multiples of a power of two instead of quotients, vectorise: this is done two thousand million times.
template <class F>
test::worst_error<float> worst(float low, float high, F reference) {
  test::worst_error<float> result;
  test::each_float(low, high, stride, [&](const float* x, std::size_t n) {
    alignas(64) float y[test::block];
    alignas(64) double exact[test::block], error[test::block];
    for (std::size_t i = 0; i < test::block; i += floats::size) swiglu::exp(floats::load(x + i)).store(y + i);
    for (std::size_t i = 0; i < test::block; ++i) exact[i] = reference(static_cast<double>(x[i]));
    for (std::size_t i = 0; i < test::block; ++i)
      error[i] = std::abs(static_cast<double>(y[i]) - exact[i]) * test::ulps_per_unit(exact[i]);
    double most[8] = {};
    for (std::size_t i = 0; i < test::block; i += 8)
      for (std::size_t j = 0; j < 8; ++j) most[j] = error[i + j] <= most[j] ? most[j] : error[i + j];
    result.count += n;
    if (std::all_of(most, most + 8, [&](double e) { return e <= result.error; })) return;
    for (std::size_t i = 0; i < n; ++i)
      if (!(error[i] <= result.error)) result.error = error[i], result.at = x[i];
  });
  return result;
}

double std_exp(double x) { return std::exp(x); }
/// Exact to 2^-29 ULP of a float for |x| < 2^-12: the next term is x^4 / 24.
double near_one(double x) { return 1 + x * (1 + x * (0.5 + x * (1.0 / 6))); }

}  // namespace

TEST_CASE("every float in [-87, 88]: within 1.1 ULP") {
  std::array<test::worst_error<float>, 2> found;
  {
    const auto half = [&found](std::size_t i, float most) {
      const float sign = i == 0 ? -1.0f : 1.0f;
      found[i] = worst(sign * 0.0f, sign * 0x1p-12f, near_one);
      found[i].add(worst(sign * 0x1p-12f, sign * most, std_exp));
    };
    const std::jthread negative(half, 0, 87.0f), positive(half, 1, 88.0f);
  }
  found[0].add(found[1]);
  MESSAGE("the worst error of exp in ULP: ", found[0]);
  CHECK(found[0].error <= 1.1);
  if (test::fast_build) CHECK(found[0].count > 2200000000U);
}

TEST_CASE("every float in [88, 89.5]: within 1.1 ULP up to the largest float, then infinity") {
  test::worst_error<float> found;
  test::each_float(88.0f, 89.5f, 1, [&](const float* x, std::size_t n) {
    float y[test::block];
    for (std::size_t i = 0; i < test::block; i += floats::size) swiglu::exp(floats::load(x + i)).store(y + i);
    for (std::size_t i = 0; i < n; ++i) {
      // Around the largest float either side of the border is within a rounding error.
      const double exact = std_exp(x[i]), most = std::numeric_limits<float>::max();
      const bool border = std::abs(exact - most) < 1.1 * 0x1p104;
      found.add(x[i], border && std::isinf(y[i]) ? 0 : test::ulps(y[i], exact));
    }
  });
  CHECK(found.error <= 1.1);
  for (const float x : {88.73f, 89.0f, 100.0f, 1e30f, std::numeric_limits<float>::max()})
    CHECK(swiglu::exp(x) == INFINITY);
  CHECK(std::isfinite(swiglu::exp(88.72f)));
}

TEST_CASE("every float in [-104, -87]: subnormal results, too, are rounded once") {
  test::worst_error<float> found;
  test::each_float(-87.0f, -104.5f, 1, [&](const float* x, std::size_t n) {
    float y[test::block];
    for (std::size_t i = 0; i < test::block; i += floats::size) swiglu::exp(floats::load(x + i)).store(y + i);
    for (std::size_t i = 0; i < n; ++i) found.add(x[i], test::ulps(y[i], std_exp(x[i])));
  });
  MESSAGE("the worst error of a subnormal exp in ULP: ", found);
  CHECK(found.error <= 1.1);
  CHECK(swiglu::exp(-103.9f) == std::numeric_limits<float>::denorm_min());
  for (const float x : {-104.0f, -105.0f, -200.0f, -1e30f, std::numeric_limits<float>::lowest()})
    CHECK(test::same_bits(swiglu::exp(x), 0.0f));
}

TEST_CASE_TEMPLATE("0, infinities and NaN in every lane, without disturbing the others", T, float, double) {
  using V = swiglu::pack<T>;
  using limits = std::numeric_limits<T>;
  for (std::size_t at = 0; at < V::size; ++at) {
    const auto with = [&](T special) {
      T x[V::size];
      for (T& other : x) other = 1;
      x[at] = special;
      swiglu::exp(V::load(x)).store(x);
      for (std::size_t i = 0; i < V::size; ++i)
        if (i != at) CHECK(x[i] == swiglu::exp(T(1)));
      return x[at];
    };
    CHECK(with(T(0)) == 1);
    CHECK(with(T(-0.0)) == 1);
    CHECK(with(limits::infinity()) == limits::infinity());
    CHECK(test::same_bits(with(-limits::infinity()), T(0)));
    CHECK(std::isnan(with(limits::quiet_NaN())));
    CHECK(with(limits::denorm_min()) == 1);
  }
  CHECK(swiglu::exp(T(0)) == 1);
  CHECK(swiglu::exp(limits::infinity()) == limits::infinity());
  CHECK(test::same_bits(swiglu::exp(-limits::infinity()), T(0)));
  CHECK(std::isnan(swiglu::exp(limits::quiet_NaN())));
}

TEST_CASE("double, a dense sample of [-745, 710]: about one ULP") {
  using V = swiglu::pack<double>;
  test::worst_error<double> found, subnormal;
  const double step = test::fast_build ? 1.0 / 4099 : 1.0 / 97;
  for (double x = -745; x < 710; x += step * V::size) {
    double in[V::size], out[V::size];
    for (std::size_t i = 0; i < V::size; ++i) in[i] = x + step * static_cast<double>(i);
    swiglu::exp(V::load(in)).store(out);
    for (std::size_t i = 0; i < V::size; ++i) {
      const long double exact = std::exp(static_cast<long double>(in[i]));
      (in[i] < -708.3 ? subnormal : found).add(in[i], test::ulps(out[i], exact));
    }
  }
  MESSAGE("the worst errors of exp in double in ULP: ", found, ", subnormal ", subnormal);
  CHECK(found.error <= 1.1);
  CHECK(subnormal.error <= 1.1);
  CHECK(swiglu::exp(709.79) == INFINITY);
  CHECK(swiglu::exp(-746.0) == 0);
}

TEST_CASE("a number and every lane of a pack give the same bits") {
  test::tally cases;
  const auto compare = [&](const float* x, std::size_t n) {
    float y[test::block];
    for (std::size_t i = 0; i < test::block; i += floats::size) swiglu::exp(floats::load(x + i)).store(y + i);
    for (std::size_t i = 0; i < n; ++i) cases(test::same_bits(swiglu::exp(x[i]), y[i]), x[i]);
  };
  test::each_float(0.0f, 90.0f, test::fast_build ? 251 : 25013, compare);
  test::each_float(-0.0f, -105.0f, test::fast_build ? 251 : 25013, compare);
  CHECK(cases);
}

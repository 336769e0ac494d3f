// SPDX-License-Identifier: MIT
// sigmoid, silu and silu': how accurate they are, and what they do at the ends.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <swiglu/activation.hpp>

#include "support/build.hpp"
#include "support/compare.hpp"
#include "support/oracle.hpp"
#include "support/ulp.hpp"

using swiglu::pack;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float largest = std::numeric_limits<float>::max();
constexpr double epsilon = 0x1p-23;

// Generic functions as objects.
constexpr auto sigmoid = [](auto x) { return swiglu::sigmoid(x); };
constexpr auto complement = [](auto x) { return swiglu::sigmoid_and_complement(x).complement; };
constexpr auto silu = [](auto x) { return swiglu::silu(x); };
constexpr auto silu_grad = [](auto x) { return swiglu::silu_grad(x); };

/// f(x[i], y[i]) for floats x from low to high and y = function(x), computed in packs.
template <class Function, class F>
void sweep(Function function, float low, float high, std::uint32_t stride, F f) {
  using V = pack<float>;
  test::each_float(low, high, test::fast_build ? stride : 59 * stride, [&](const float* x, std::size_t n) {
    float y[test::block];
    for (std::size_t i = 0; i < test::block; i += V::size) function(V::load(x + i)).store(y + i);
    for (std::size_t i = 0; i < n; ++i) f(x[i], y[i]);
  });
}
/// The same for all floats of both signs with magnitudes up to `most`.
template <class Function, class F>
void sweep_both(Function function, float most_negative, float most_positive, std::uint32_t stride, F f) {
  sweep(function, -0.0f, most_negative, stride, f);
  sweep(function, 0.0f, most_positive, stride, f);
}

/// f(x) in every lane of a pack while the other lanes hold `other`: always the same bits. As a number it may be rounded
/// otherwise, once.
template <class F>
float everywhere(F f, float x, float other = 1) {
  using V = pack<float>;
  const auto in_all_lanes = [&](float value) {
    float lanes[V::size];
    f(V(value)).store(lanes);
    return lanes[0];
  };
  const auto same = [](float a, float b) { return test::same_bits(a, b) || (std::isnan(a) && std::isnan(b)); };
  const float expected = in_all_lanes(x), beside = in_all_lanes(other);
  for (std::size_t at = 0; at < V::size; ++at) {
    float lanes[V::size];
    for (float& lane : lanes) lane = other;
    lanes[at] = x;
    f(V::load(lanes)).store(lanes);
    for (std::size_t i = 0; i < V::size; ++i) CHECK(same(lanes[i], i == at ? expected : beside));
  }
  const float number = f(x);
  CHECK(
      (same(number, expected) || std::abs(number - expected) <= 2 * std::abs(expected) * static_cast<float>(epsilon)));
  return expected;
}

bool close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

}  // namespace

TEST_CASE("silu is within 4 ULP on [-87, inf)") {
  test::worst_error<float> found;
  sweep_both(silu, -87.0f, largest, 101,
             [&](float x, float y) { found.add(x, test::ulps(y, test::silu(static_cast<double>(x)))); });
  MESSAGE("the worst error of silu in ULP: ", found);
  CHECK(found.error <= 4);
}

TEST_CASE("silu' is within 8 ULP outside, and within 4 eps inside, of a neighbourhood of 0.5 around its root") {
  // The relative error grows as the root comes near, whatever the formula: 1 + x (1 - sigmoid(x)) cancels.
  test::worst_error<float> outside, inside;
  sweep_both(silu_grad, -87.0f, largest, 101, [&](float x, float y) {
    const double exact = test::silu_grad(static_cast<double>(x));
    if (std::abs(x + 1.2785) < 0.5)
      inside.add(x, std::abs(y - exact) / epsilon);
    else
      outside.add(x, test::ulps(y, exact));
  });
  MESSAGE("the worst error of silu' in ULP, away from its root: ", outside, "; in eps, near it: ", inside);
  CHECK(outside.error <= 8);
  CHECK(inside.error <= 4);
  CHECK(inside.count > 0);
}

TEST_CASE("sigmoid and its complement are accurate where the other one is near 1") {
  test::worst_error<float> found;
  sweep_both(sigmoid, -87.0f, largest, 251,
             [&](float x, float y) { found.add(x, test::ulps(y, test::sigmoid(static_cast<double>(x)))); });
  sweep_both(complement, -largest, 87.0f, 251,
             [&](float x, float y) { found.add(x, test::ulps(y, test::sigmoid(-static_cast<double>(x)))); });
  MESSAGE("the worst error of sigmoid and complement in ULP: ", found);
  CHECK(found.error <= 4);
}

TEST_CASE("the complement of x is the sigmoid of -x to the bit, and both add up to 1") {
  test::tally mirrored, one;
  const auto mirrored_sigmoid = [](auto x) { return swiglu::sigmoid(-x); };
  const auto sum = [](auto x) { return swiglu::sigmoid(x) + swiglu::sigmoid_and_complement(x).complement; };
  for (const float most : {-100.0f, 100.0f})
    test::each_float(std::copysign(1e-30f, most), most, 1009, [&](const float* x, std::size_t) {
      for (std::size_t i = 0; i < test::block; i += pack<float>::size) {
        const auto v = pack<float>::load(x + i);
        float a[pack<float>::size], b[pack<float>::size], c[pack<float>::size];
        complement(v).store(a);
        mirrored_sigmoid(v).store(b);
        sum(v).store(c);
        for (std::size_t j = 0; j < pack<float>::size; ++j) {
          mirrored(test::same_bits(a[j], b[j]), x[i + j]);
          mirrored(test::same_bits(complement(x[i + j]), mirrored_sigmoid(x[i + j])), "number", x[i + j]);
          one(std::abs(static_cast<double>(c[j]) - 1) <= epsilon, x[i + j]);
        }
      }
    });
  CHECK(mirrored);
  CHECK(one);
}

TEST_CASE("numbers and packs agree to a few ULP, and have their infinities and zeros at the same places") {
  // Not to the bit: a pack may have a faster reciprocal.
  test::worst_error<float> found;
  test::tally ends;
  const auto compare = [&](auto function, float low) {
    sweep_both(function, low, infinity, 4001, [&](float x, float y) {
      const float number = function(x);
      ends(std::isinf(number) == std::isinf(y) && (number == 0) == (y == 0), x);
      if (std::isfinite(number)) found.add(x, test::ulps(y, static_cast<double>(number)));
    });
  };
  compare(sigmoid, -87.0f);
  compare(silu, -87.0f);
  compare(complement, -infinity);
  MESSAGE("the largest difference between a number and a pack in ULP: ", found);
  CHECK(found.error <= 4);
  CHECK(ends);
}

TEST_CASE("double: a dense sample") {
  using V = pack<double>;
  test::worst_error<double> of_silu, of_grad, near_root;
  const double step = test::fast_build ? 1.0 / 1021 : 1.0 / 53;
  for (double x = -700; x < 700; x += step * V::size) {
    double in[V::size], out[V::size], grad[V::size];
    for (std::size_t i = 0; i < V::size; ++i) in[i] = x + step * static_cast<double>(i);
    swiglu::silu(V::load(in)).store(out);
    swiglu::silu_grad(V::load(in)).store(grad);
    for (std::size_t i = 0; i < V::size; ++i) {
      const long double exact = in[i], slope = test::silu_grad(exact);
      of_silu.add(in[i], test::ulps(out[i], test::silu(exact)));
      if (std::abs(in[i] + 1.2785) < 0.5)
        near_root.add(in[i], static_cast<double>(std::abs(static_cast<long double>(grad[i]) - slope)) / 0x1p-52);
      else
        of_grad.add(in[i], test::ulps(grad[i], slope));
    }
  }
  MESSAGE("the worst errors in double: silu ", of_silu, ", silu' ", of_grad, ", near its root in eps ", near_root);
  CHECK(of_silu.error <= 4);
  CHECK(of_grad.error <= 8);
  CHECK(near_root.error <= 4);
}

TEST_CASE("silu at the ends, as a number and in every lane") {
  CHECK(close(everywhere(silu, -87.0f), -1.43185595e-36));
  CHECK(close(everywhere(silu, -89.0f), -1.98235357e-37));
  CHECK(std::abs(everywhere(silu, -100.0f) + 3.72e-42) < 0.1e-42);  // sigmoid is subnormal there
  CHECK(everywhere(silu, -200.0f) == 0);
  CHECK(everywhere(silu, 89.0f) == 89);
  CHECK(everywhere(silu, 100.0f) == 100);
  CHECK(everywhere(silu, largest) == largest);
  CHECK(everywhere(silu, -largest) == 0);
  CHECK(test::same_bits(everywhere(silu, 0.0f), 0.0f));
  CHECK(test::same_bits(everywhere(silu, -0.0f), -0.0f));
  CHECK(everywhere(silu, 1e-30f) == 0.5e-30f);
}

TEST_CASE("silu' at the ends, as a number and in every lane") {
  CHECK(close(everywhere(silu_grad, -87.0f), test::silu_grad(-87.0)));
  CHECK(close(everywhere(silu_grad, -89.0f), -1.96007993e-37));
  CHECK(everywhere(silu_grad, -200.0f) == 0);
  CHECK(everywhere(silu_grad, 89.0f) == 1);
  CHECK(everywhere(silu_grad, largest) == 1);
  CHECK(everywhere(silu_grad, -largest) == 0);
  CHECK(everywhere(silu_grad, 0.0f) == 0.5f);
  CHECK(everywhere(silu_grad, -0.0f) == 0.5f);
}

TEST_CASE("the limits at infinity are taken, and NaN stays where it is") {
  CHECK(everywhere(silu, infinity) == infinity);
  CHECK(everywhere(silu, -infinity) == 0);
  CHECK(everywhere(silu_grad, infinity) == 1);
  CHECK(everywhere(silu_grad, -infinity) == 0);
  CHECK(everywhere(sigmoid, infinity) == 1);
  CHECK(everywhere(sigmoid, -infinity) == 0);
  CHECK(everywhere(complement, infinity) == 0);
  CHECK(everywhere(complement, -infinity) == 1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(everywhere(sigmoid, nan)));
  CHECK(std::isnan(everywhere(complement, nan)));
  CHECK(std::isnan(everywhere(silu, nan)));
  CHECK(std::isnan(everywhere(silu_grad, nan)));
  CHECK(everywhere(silu, 1.0f, nan) == swiglu::silu(1.0f));
  CHECK(everywhere(silu, 1.0f, -infinity) == swiglu::silu(1.0f));
  CHECK(swiglu::silu(std::numeric_limits<double>::infinity()) == std::numeric_limits<double>::infinity());
  CHECK(swiglu::silu(-std::numeric_limits<double>::infinity()) == 0);
  CHECK(swiglu::silu_grad(-std::numeric_limits<double>::infinity()) == 0);
}

TEST_CASE("no finite number makes a NaN or an infinity, and silu of a negative number is never positive") {
  test::tally finite, sign;
  sweep_both(silu, -largest, largest, 997, [&](float x, float y) {
    finite(std::isfinite(y), "silu", x);
    sign(x < 0 ? y <= 0 : y >= 0, x);
  });
  sweep_both(silu_grad, -largest, largest, 997, [&](float x, float y) { finite(std::isfinite(y), "silu'", x); });
  sweep_both(sigmoid, -largest, largest, 997, [&](float x, float y) { finite(y >= 0 && y <= 1, "sigmoid", x); });
  CHECK(finite);
  CHECK(sign);
}

TEST_CASE("silu decays monotonically on the far left: no clamp shows") {
  float last = 1;
  for (int x = -20; x >= -100; x -= 10) {
    const float y = everywhere(silu, static_cast<float>(x)), slope = everywhere(silu_grad, static_cast<float>(x));
    CHECK(y < 0);
    CHECK(-y < last);
    CHECK(slope < 0);
    last = -y;
  }
  CHECK(last < 1e-40f);
  for (int x = -110; x >= -200; x -= 10) {
    CHECK(swiglu::silu(static_cast<float>(x)) == 0);
    CHECK(swiglu::silu_grad(static_cast<float>(x)) == 0);
  }
}

TEST_CASE("sigmoid of large numbers of both signs") {
  const float x[] = {-1662.7f, 3212.5f, -1093.7f, 2063.8f, 91.4f, -1471, 1823.2f, 1935.3f, 0, -0.5f};
  const double expected[] = {0, 1, 0, 1, 1, 0, 1, 1, 0.5, 0.37754067};
  for (std::size_t i = 0; i < 10; ++i) CHECK(std::abs(everywhere(sigmoid, x[i]) - expected[i]) <= 1e-6 * expected[i]);
}

TEST_CASE("a sigmoid at hand gives the same silu and silu'") {
  for (float x = -90; x < 90; x += 0.37f) {  // NOLINT: any numbers will do
    CHECK(test::same_bits(swiglu::silu(x, swiglu::sigmoid(x)), swiglu::silu(x)));
    CHECK(test::same_bits(swiglu::silu_grad(x, swiglu::sigmoid_and_complement(x)), swiglu::silu_grad(x)));
  }
}

TEST_CASE("huge gate, tiny up: the product is what it should be") {
  CHECK(close(everywhere([](auto x) { return swiglu::silu(x) * decltype(x)(1e-30f); }, 1e30f), 1));
}

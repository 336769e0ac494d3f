// SPDX-License-Identifier: MIT
// Packs do in every lane what scalars do, and touch no memory but that of their lanes.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <swiglu/simd.hpp>

#include "support/build.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/ulp.hpp"

using namespace swiglu;

namespace {

template <class T>
std::vector<T> interesting() {
  using limits = std::numeric_limits<T>;
  std::vector<T> x{T(0),
                   T(1),
                   T(0.5),
                   T(1.5),
                   T(2.5),
                   T(3),
                   T(1e-3),
                   T(12345.678),
                   limits::min(),
                   limits::max(),
                   limits::epsilon(),
                   limits::denorm_min(),
                   limits::infinity(),
                   limits::quiet_NaN()};
  test::random_numbers numbers(1);
  for (int i = 0; i < 6; ++i) x.push_back(static_cast<T>(numbers.uniform(-10, 10)));
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) x.push_back(-x[i]);
  return x;
}

/// Equal to the bit; a NaN may be any NaN.
template <class T>
bool same(T a, T b) {
  return (std::isnan(a) && std::isnan(b)) || test::same_bits(a, b);
}

template <class T>
struct lanes {
  T lane[pack<T>::size];
  explicit lanes(const pack<T>& p) { p.store(lane); }
  T operator[](std::size_t i) const { return lane[i]; }
};

/// Every combination of three interesting numbers in every lane: f of packs is f of the scalars there.
template <class T, class F>
test::tally agrees(F f) {
  const std::vector<T> values = interesting<T>();
  test::tally cases;
  T a[pack<T>::size], b[pack<T>::size], c[pack<T>::size];
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < values.size(); ++j)
      for (std::size_t shift = 0; shift < pack<T>::size; ++shift) {
        for (std::size_t k = 0; k < pack<T>::size; ++k) {
          const std::size_t n = values.size();
          a[k] = values[(i + shift + k) % n], b[k] = values[(j + 3 * k) % n], c[k] = values[(i + j + 5 * k) % n];
        }
        const lanes<T> result(f(pack<T>::load(a), pack<T>::load(b), pack<T>::load(c)));
        for (std::size_t k = 0; k < pack<T>::size; ++k)
          cases(same(result[k], f(a[k], b[k], c[k])), a[k], b[k], c[k], "gives", result[k]);
      }
  return cases;
}

}  // namespace

TEST_CASE_TEMPLATE("arithmetic in every lane is that of scalars", T, float, double) {
  CHECK(agrees<T>([](auto a, auto b, auto) { return a + b; }));
  CHECK(agrees<T>([](auto a, auto b, auto) { return a - b; }));
  CHECK(agrees<T>([](auto a, auto b, auto) { return a * b; }));
  CHECK(agrees<T>([](auto a, auto b, auto) { return a / b; }));
  CHECK(agrees<T>([](auto a, auto, auto) { return -a; }));
  // By name, because for numbers the C library has functions called like that, too. Those of packs are friends.
  CHECK(agrees<T>([](auto a, auto, auto) {
    using swiglu::abs;
    return abs(a);
  }));
  CHECK(agrees<T>([](auto a, auto b, auto c) {
    using swiglu::fma;
    return fma(a, b, c);
  }));
  CHECK(agrees<T>([](auto a, auto b, auto c) { return if_negative(a, b, c); }));
  CHECK(agrees<T>([](auto a, auto b, auto) { return at_least(a, b); }));
  CHECK(agrees<T>([](auto a, auto b, auto) { return at_most(a, b); }));
}

TEST_CASE_TEMPLATE("bounds keep a NaN, and a NaN is not negative", T, float, double) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  CHECK(std::isnan(at_least(nan, T(1))));
  CHECK(std::isnan(at_most(nan, T(1))));
  CHECK(if_negative(nan, T(1), T(2)) == 2);
  CHECK(if_negative(T(-0.0), T(1), T(2)) == 2);
  CHECK(std::isnan(lanes<T>(at_least(pack<T>(nan), pack<T>(T(1))))[0]));
  CHECK(std::isnan(lanes<T>(at_most(pack<T>(nan), pack<T>(T(1))))[0]));
  CHECK(lanes<T>(if_negative(pack<T>(nan), pack<T>(T(1)), pack<T>(T(2))))[0] == 2);
}

TEST_CASE_TEMPLATE("nearest integer, ties to even, for numbers and packs", T, float, double) {
  test::tally cases;
  const T largest = static_cast<T>(sizeof(T) == 4 ? 0x1p22 : 0x1p51) - T(1);
  std::vector<T> values{largest, largest - T(0.5), T(0.49999997), T(0.5), T(1.5), T(2.5), T(3.5), T(1e-30)};
  test::random_numbers numbers(1);
  for (int i = 0; i < 1000; ++i) values.push_back(static_cast<T>(numbers.uniform(-200, 200)));
  for (const T magnitude : values)
    for (const T x : {magnitude, -magnitude}) {
      cases(nearest(x) == std::nearbyint(x), "scalar", x);
      cases(lanes<T>(nearest(pack<T>(x)))[0] == std::nearbyint(x), "pack", x);
    }
  CHECK(cases);
  CHECK(std::isnan(lanes<T>(nearest(pack<T>(std::numeric_limits<T>::quiet_NaN())))[0]));
}

TEST_CASE_TEMPLATE("x * 2^n rounds once, into the subnormal numbers and to infinity", T, float, double) {
  test::tally cases;
  const int most = std::numeric_limits<T>::max_exponent - 2;
  test::random_numbers numbers(1);
  for (int n = -2 * most; n <= 2 * most; ++n)
    for (int i = 0; i < 8; ++i) {
      const T x = static_cast<T>(numbers.uniform(0.7, 1.5)), expected = std::ldexp(x, n);
      cases(test::same_bits(times_power_of_two(x, static_cast<T>(n)), expected), "scalar", x, n);
      const lanes<T> result(times_power_of_two(pack<T>(x), pack<T>(static_cast<T>(n))));
      for (std::size_t k = 0; k < pack<T>::size; ++k) cases(test::same_bits(result[k], expected), "pack", x, n);
    }
  CHECK(cases);
}

TEST_CASE("reciprocals are within 0.6 ULP") {
  test::worst_error<float> found;
  const auto sweep = [&](float low, float high, std::uint32_t stride) {
    test::each_float(low, high, stride, [&](const float* x, std::size_t n) {
      float y[test::block];
      for (std::size_t i = 0; i < test::block; i += pack<float>::size)
        reciprocal(pack<float>::load(x + i)).store(y + i);
      for (std::size_t i = 0; i < n; ++i) found.add(x[i], test::ulps(y[i], 1 / static_cast<double>(x[i])));
    });
  };
  sweep(1.0f, 2.0f, test::fast_build ? 1 : 101);
  sweep(0x1p-126f, 0x1p126f, 1009);
  sweep(-0x1p-126f, -0x1p126f, 1009);
  CHECK(found.error <= 0.6);
  CHECK(reciprocal(4.0f) == 0.25f);
  CHECK(std::isnan(lanes<float>(reciprocal(pack<float>(std::numeric_limits<float>::quiet_NaN())))[0]));
  for (const double x : {1.0, 1.1, -3.0, 1e300}) {
    CHECK(lanes<double>(reciprocal(pack<double>(x)))[0] == 1 / x);
    CHECK(reciprocal(x) == 1 / x);
  }
}

TEST_CASE_TEMPLATE("loads and stores take any address, and only so many elements as asked for", T, float, double) {
  using V = pack<T>;
  for (std::size_t offset = 0; offset < alignment / sizeof(T); ++offset)
    for (std::size_t n = 0; n <= V::size; ++n) {
      test::guarded<T> from(1, n, 0, offset), to(1, n, 0, offset);
      test::fill(from.view(), offset + n);
      const V partial = V::load_partial(from.data(), n);
      const lanes<T> loaded(partial);
      bool right = true;
      for (std::size_t i = 0; i < V::size; ++i)
        right = right && test::same_bits(loaded[i], i < n ? from.data()[i] : T(0));
      CHECK(right);
      partial.store_partial(to.data(), n);
      CHECK(test::same_bits(to.view(), from.view()));
      CHECK(to.intact());
      if (n < V::size) continue;
      V::load(from.data()).store(to.data());
      CHECK(test::same_bits(to.view(), from.view()));
      CHECK(to.intact());
    }
}

TEST_CASE_TEMPLATE("gather takes every stride-th element and fills up with zeros", T, float, double) {
  using V = pack<T>;
  for (const std::size_t stride : test::sizes{1, 2, 3, 17, 64})
    for (std::size_t n = 0; n <= V::size; ++n) {
      test::guarded<T> from(n, 1, stride);
      test::fill(from.view(), stride + n);
      const lanes<T> result(V::gather(from.data(), stride, n));
      bool right = true;
      for (std::size_t i = 0; i < V::size; ++i)
        right = right && test::same_bits(result[i], i < n ? from.view()(i, 0) : T(0));
      CHECK(right);
    }
}

// SPDX-License-Identifier: MIT
#pragma once

// Errors in units in the last place, and loops over the floating-point numbers.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <type_traits>

namespace test {

/// The distance of the numbers of T around `exact`.
inline double ulp_of(std::type_identity_t<double> exact, float) {
  const std::uint64_t exponent = std::bit_cast<std::uint64_t>(exact) & 0x7ff0000000000000U;  // quicker than std::ilogb
  return std::max(std::bit_cast<double>(exponent), 0x1p-126) * 0x1p-23;
}
/// 1 / ulp_of(exact, float()) for an exact result in the range of float's normal numbers.
inline double ulps_per_unit(double exact) {
  const std::uint64_t exponent = std::bit_cast<std::uint64_t>(exact) & 0x7ff0000000000000U;
  return std::bit_cast<double>(0x7fe0000000000000U - exponent) * 0x1p23;
}
inline long double ulp_of(std::type_identity_t<long double> exact, double) {
  const int least = std::numeric_limits<double>::min_exponent - 1;
  return std::ldexp(1.0L, (exact == 0 ? least : std::max(std::ilogb(exact), least)) - 52);
}

/// |actual - exact| in units in the last place of T at `exact`. Infinity is right where `exact` rounds to it; there,
/// and only there.
template <class T, class Exact>
double ulps(T actual, Exact exact) {
  const Exact most = std::numeric_limits<T>::max();
  if (std::isinf(actual) && std::abs(exact) > most && (actual > 0) == (exact > 0)) return 0;
  return static_cast<double>(std::abs(static_cast<Exact>(actual) - exact) / ulp_of(exact, T()));
}

/// The worst error of a sweep, and where.
template <class T>
struct worst_error {
  double error = 0;
  T at = 0;
  std::size_t count = 0;  ///< of the numbers looked at

  void add(T x, double e) {
    ++count;
    if (!(e <= error)) error = e, at = x;  // a NaN is worst and stays
  }
  void add(const worst_error& other) {
    if (!(other.error <= error)) error = other.error, at = other.at;
    count += other.count;
  }
  friend std::ostream& operator<<(std::ostream& out, const worst_error& w) {
    const auto digits = out.precision(9);
    out << w.error << " at " << w.at << " (" << w.count << " numbers)";
    out.precision(digits);
    return out;
  }
};

inline constexpr std::size_t block = 1024;

/// f(x, n) for arrays x of `block` floats, n of them new: every `stride`-th float from `low` to `high`, both of one
/// sign, in order of magnitude.
template <class F>
void each_float(float low, float high, std::uint32_t stride, F f) {
  alignas(64) float x[block];
  const std::uint32_t a = std::bit_cast<std::uint32_t>(low), b = std::bit_cast<std::uint32_t>(high);
  const std::uint64_t first = std::min(a, b), last = std::max(a, b);
  for (std::uint64_t at = first; at <= last; at += block * std::uint64_t{stride}) {
    const std::size_t n = std::min<std::size_t>(block, static_cast<std::size_t>((last - at) / stride + 1));
    for (std::size_t i = 0; i < n; ++i) x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(at + i * stride));
    for (std::size_t i = n; i < block; ++i) x[i] = x[0];
    f(static_cast<const float*>(x), n);
  }
}

}  // namespace test

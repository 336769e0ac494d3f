// SPDX-License-Identifier: MIT
#pragma once

// The exponential, for a scalar or a pack. Our own, since xsimd's has no documented bound, flushes subnormal results
// and differs under some flags.

#include <array>
#include <concepts>
#include <cstddef>

#include <swiglu/simd.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

namespace impl {
/// `Bounded`: x is known not to overflow.
template <bool Bounded, number V>
[[gnu::always_inline]] inline V exp_of(V x) {
  using T = scalar_t<V>;
  constexpr bool single = std::same_as<T, float>;
  constexpr T low = single ? T(-104) : T(-746), high = single ? T(89) : T(710);
  constexpr T log2_e = T(1.44269504088896340735992468100189214);
  constexpr T log_2_high = single ? T(0.693359375) : T(6.93147180369123816490e-01);
  constexpr T log_2_low = single ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);
  constexpr auto q = [] {
    if constexpr (single)
      return std::array<float, 5>{0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f, 0x1.123a2p-7f, 0x1.6a23cep-10f};
    else {
      std::array<double, 12> c{};
      double factorial = 1;
      for (std::size_t i = 0; i < c.size(); ++i) c[i] = 1 / (factorial *= static_cast<double>(i + 2));
      return c;
    }
  }();

  V y = at_least(x, V(low));
  if constexpr (!Bounded) y = at_most(y, V(high));
  const V n = nearest(y * V(log2_e));
  const V r = fma(n, V(-log_2_low), fma(n, V(-log_2_high), y));
  V p(q.back());
  for (std::size_t i = q.size() - 1; i-- > 0;) p = fma(p, r, V(q[i]));
  p = fma(p, r * r, r) + V(T(1));
  return times_power_of_two(p, n);
}
}  // namespace impl

/// e^x: within 1.1 ULP for float (a test measures every float), about 1 ULP for double, subnormal results included;
/// overflows to infinity, NaN stays NaN. Cody-Waite reduction by log 2; 1 + r + r^2 q(r) on |r| <= log(2)/2, q minimax
/// for float (relative error 3.1e-9, fitted by Lawson's algorithm), the Taylor series for double.
template <number V>
[[gnu::always_inline]] inline V exp(V x) {
  return impl::exp_of<false>(x);
}
/// The same for x <= 0 (or NaN), a little faster.
template <number V>
[[gnu::always_inline]] inline V exp_of_nonpositive(V x) {
  return impl::exp_of<true>(x);
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

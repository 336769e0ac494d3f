// SPDX-License-Identifier: MIT
#pragma once

// One vector register of T as a value, and the few primitives that the formulas and kernels are written in. The same
// names work on a scalar, so that a formula is written once. This is the only header that knows xsimd or an intrinsic;
// it works with xsimd 8.1 (whose AVX-512 has no fma) to current, and without any SIMD (SWIGLU_SCALAR).

#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <swiglu/config.hpp>
#include <swiglu/tensor.hpp>

#if !defined(SWIGLU_SCALAR)
#include <xsimd/xsimd.hpp>
#endif

namespace swiglu {
inline namespace SWIGLU_ABI {

namespace impl {

/// The integer as wide as T; the magic number whose addition rounds to nearest; the exponent's position and bias.
template <class T>
struct format_of;
template <>
struct format_of<float> {
  using integer = std::int32_t;
  static constexpr float round = 12582912.0f;  // 1.5 * 2^23
  static constexpr int shift = 23;
  static constexpr float bias = 127;
};
template <>
struct format_of<double> {
  using integer = std::int64_t;
  static constexpr double round = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr int shift = 52;
  static constexpr double bias = 1023;
};

#if defined(SWIGLU_SCALAR) || defined(XSIMD_NO_SUPPORTED_ARCHITECTURE)

inline constexpr bool has_simd = false;

/// The stand-in for xsimd::batch where there is no SIMD: 16 bytes of lanes.
template <class T>
struct lanes {
  static constexpr std::size_t size = 16 / sizeof(T);
  std::array<T, size> v;

  lanes() = default;
  explicit lanes(T x) { v.fill(x); }
  static lanes load_unaligned(const T* p) {
    lanes r;
    std::memcpy(&r, p, sizeof r);
    return r;
  }
  void store_unaligned(T* p) const { std::memcpy(p, this, sizeof *this); }
  template <class F>
  static lanes each(F f) {
    lanes r;
    for (std::size_t i = 0; i < size; ++i) r.v[i] = f(i);
    return r;
  }
  friend lanes operator+(lanes a, lanes b) {
    return each([&](std::size_t i) { return a.v[i] + b.v[i]; });
  }
  friend lanes operator-(lanes a, lanes b) {
    return each([&](std::size_t i) { return a.v[i] - b.v[i]; });
  }
  friend lanes operator*(lanes a, lanes b) {
    return each([&](std::size_t i) { return a.v[i] * b.v[i]; });
  }
  friend lanes operator/(lanes a, lanes b) {
    return each([&](std::size_t i) { return a.v[i] / b.v[i]; });
  }
  friend lanes operator-(lanes a) {
    return each([&](std::size_t i) { return -a.v[i]; });
  }
  friend lanes operator<<(lanes a, int n) {
    return each([&](std::size_t i) { return a.v[i] << n; });
  }
  friend std::array<bool, size> operator<(lanes a, lanes b) {
    std::array<bool, size> m{};
    for (std::size_t i = 0; i < size; ++i) m[i] = a.v[i] < b.v[i];
    return m;
  }
  friend lanes select(std::array<bool, size> m, lanes a, lanes b) {
    return each([&](std::size_t i) { return m[i] ? a.v[i] : b.v[i]; });
  }
  friend lanes abs(lanes a) {
    return each([&](std::size_t i) { return std::abs(a.v[i]); });
  }
  friend lanes fma(lanes a, lanes b, lanes c) {
#if defined(__FMA__) || defined(__aarch64__)
    return each([&](std::size_t i) { return std::fma(a.v[i], b.v[i], c.v[i]); });  // not left to the compiler
#else
    return each([&](std::size_t i) { return a.v[i] * b.v[i] + c.v[i]; });
#endif
  }
};
template <class T>
using batch = lanes<T>;

#else

inline constexpr bool has_simd = true;
template <class T>
using batch = xsimd::batch<T>;

#endif

/// a * b + c, rounded once where the hardware can. xsimd before 11 has no AVX-512 fma, and clang does not contract one.
template <class T>
[[gnu::always_inline]] inline batch<T> multiply_add(const batch<T>& a, const batch<T>& b, const batch<T>& c) {
#if defined(__AVX512F__) && !defined(SWIGLU_SCALAR)
  if constexpr (std::is_same_v<T, float>)
    return _mm512_fmadd_ps(a, b, c);
  else
    return _mm512_fmadd_pd(a, b, c);
#else
  return fma(a, b, c);
#endif
}

/// Reinterprets the bits of a register.
template <class To, class From>
[[gnu::always_inline]] inline To bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(static_cast<void*>(&to), &from, sizeof to);
  return to;
}

}  // namespace impl

/// One register of T: `size` lanes, passed by value. Loads and stores accept any alignment.
template <real T>
class pack {
  using batch = impl::batch<T>;

 public:
  using value_type = T;
  static constexpr std::size_t size = batch::size;

  pack() = default;
  [[gnu::always_inline]] explicit pack(T x) : v_(x) {}
  [[gnu::always_inline]] static pack load(const T* p) { return pack(batch::load_unaligned(p)); }
  [[gnu::always_inline]] void store(T* p) const { v_.store_unaligned(p); }

  /// The first n <= size elements of p, the other lanes 0: nothing behind p[n - 1] is read.
  static pack load_partial(const T* p, std::size_t n) {
    alignas(alignment) T lanes[size] = {};
    std::memcpy(lanes, p, n * sizeof(T));
    return load(lanes);
  }
  /// The first n <= size lanes: nothing behind p[n - 1] is written.
  void store_partial(T* p, std::size_t n) const {
    alignas(alignment) T lanes[size];
    store(lanes);
    std::memcpy(p, lanes, n * sizeof(T));
  }
  /// n <= size elements, `stride` apart; the other lanes 0.
  static pack gather(const T* p, std::size_t stride, std::size_t n) {
    alignas(alignment) T lanes[size] = {};
    for (std::size_t i = 0; i < n; ++i) lanes[i] = p[i * stride];
    return load(lanes);
  }

  [[gnu::always_inline]] friend pack operator+(pack a, pack b) { return pack(a.v_ + b.v_); }
  [[gnu::always_inline]] friend pack operator-(pack a, pack b) { return pack(a.v_ - b.v_); }
  [[gnu::always_inline]] friend pack operator*(pack a, pack b) { return pack(a.v_ * b.v_); }
  [[gnu::always_inline]] friend pack operator/(pack a, pack b) { return pack(a.v_ / b.v_); }
  [[gnu::always_inline]] friend pack operator-(pack a) {
    return pack(batch(T(-0.0)) - a.v_);  // xsimd's -x is 0 - x before 9: it loses the sign of 0
  }

  [[gnu::always_inline]] friend pack fma(pack a, pack b, pack c) {
    return pack(impl::multiply_add<T>(a.v_, b.v_, c.v_));
  }
  [[gnu::always_inline]] friend pack abs(pack x) {
    using impl::batch, std::abs;
    return pack(abs(x.v_));
  }
  [[gnu::always_inline]] friend pack if_negative(pack x, pack yes, pack no) {
    return pack(select(x.v_ < impl::batch<T>(T(0)), yes.v_, no.v_));
  }
  [[gnu::always_inline]] friend pack at_least(pack x, pack low) {
#if defined(__AVX512F__) && !defined(SWIGLU_SCALAR)
    // x86 returns the second operand if one is NaN. (The zero-masked forms here and below: g++ 12 warns of an
    // uninitialised operand inside its own plain ones.)
    if constexpr (std::is_same_v<T, float>)
      return pack(batch(_mm512_maskz_max_ps(0xffff, low.v_, x.v_)));
    else
      return pack(batch(_mm512_maskz_max_pd(0xff, low.v_, x.v_)));
#else
    return pack(select(x.v_ < low.v_, low.v_, x.v_));  // not max: xsimd's differ on NaN between versions
#endif
  }
  [[gnu::always_inline]] friend pack at_most(pack x, pack high) {
#if defined(__AVX512F__) && !defined(SWIGLU_SCALAR)
    if constexpr (std::is_same_v<T, float>)
      return pack(batch(_mm512_maskz_min_ps(0xffff, high.v_, x.v_)));
    else
      return pack(batch(_mm512_maskz_min_pd(0xff, high.v_, x.v_)));
#else
    return pack(select(high.v_ < x.v_, high.v_, x.v_));
#endif
  }

  [[gnu::always_inline]] friend pack reciprocal(pack x) {
#if defined(__AVX512F__) && !defined(SWIGLU_SCALAR)
    if constexpr (std::is_same_v<T, float>) {  // one Newton step from 14 bits: a third of a division's time
      const pack r(batch(_mm512_maskz_rcp14_ps(0xffff, x.v_)));
      return fma(fma(-x, r, pack(T(1))), r, r);
    }
#endif
    return pack(T(1)) / x;
  }

  [[gnu::always_inline]] friend pack nearest(pack x) {
#if defined(__AVX512F__) && !defined(SWIGLU_SCALAR)
    if constexpr (std::is_same_v<T, float>)
      return pack(batch(_mm512_maskz_roundscale_ps(0xffff, x.v_, 8)));
    else
      return pack(batch(_mm512_maskz_roundscale_pd(0xff, x.v_, 8)));
#else
    const batch magic(impl::format_of<T>::round);
    return pack((x.v_ + magic) - magic);
#endif
  }
  [[gnu::always_inline]] friend pack times_power_of_two(pack x, pack n) {
#if defined(__AVX512F__) && !defined(SWIGLU_SCALAR)
    if constexpr (std::is_same_v<T, float>)
      return pack(batch(_mm512_maskz_scalef_ps(0xffff, x.v_, n.v_)));
    else
      return pack(batch(_mm512_maskz_scalef_pd(0xff, x.v_, n.v_)));
#else
    // In two steps, since 2^n itself may be out of range where x * 2^n is not.
    const pack half = nearest(n * pack(T(0.5)));
    return x * power_of_two(half) * power_of_two(n - half);
#endif
  }

 private:
  explicit pack(const batch& v) : v_(v) {}
  [[gnu::always_inline]] static pack power_of_two(pack n) {  // n integer, 2^n a normal number
    using format = impl::format_of<T>;
    using integers = impl::batch<typename format::integer>;
    const auto biased = impl::bits<integers>(n.v_ + batch(format::round + format::bias));
    return pack(impl::bits<batch>(integers(biased << format::shift)));
  }
  batch v_;
};

// The same primitives on a scalar.

template <real T>
inline T fma(T a, T b, T c) {
#if defined(__FMA__) || defined(__aarch64__)
  return std::fma(a, b, c);
#else
  return a * b + c;  // as the packs do where the hardware has no fma
#endif
}
template <real T>
inline T abs(T x) {
  return std::abs(x);
}
/// x < 0 ? yes : no (NaN counts as not negative).
template <real T>
inline T if_negative(T x, T yes, T no) {
  return x < 0 ? yes : no;
}
/// max(x, low) that keeps a NaN x.
template <real T>
inline T at_least(T x, T low) {
  return x < low ? low : x;
}
/// min(x, high) that keeps a NaN x.
template <real T>
inline T at_most(T x, T high) {
  return high < x ? high : x;
}
/// 1 / x within 0.6 ULP, for x normal and not so large that 1 / x is subnormal.
template <real T>
inline T reciprocal(T x) {
  return 1 / x;
}
/// The nearest integer, ties to even; |x| < 2^22 (float) or 2^51 (double).
template <real T>
inline T nearest(T x) {
  return std::nearbyint(x);
}
/// x * 2^n for an integer n, |n| <= 2 * the largest exponent; rounds once where the result is subnormal.
template <real T>
inline T times_power_of_two(T x, T n) {
  return std::ldexp(x, static_cast<int>(n != n ? T(0) : n));
}

/// A scalar of T, a pack or a pack_group of T: what the formulas are generic over.
template <class V>
concept number = real<V> || requires(V x, typename V::value_type one) {
  V(one);
  { fma(x, x, x) } -> std::same_as<V>;
  { times_power_of_two(x, x) } -> std::same_as<V>;
};

namespace impl {

/// Lane i is lane Index i of a and b, one after the other.
template <std::size_t... Index, real T>
[[gnu::always_inline]] inline pack<T> shuffle(pack<T> a, pack<T> b) {
  constexpr std::size_t n = sizeof...(Index);
  if constexpr (has_simd) {
    typedef T vector __attribute__((vector_size(n * sizeof(T))));
    return bits<pack<T>>(__builtin_shufflevector(bits<vector>(a), bits<vector>(b), Index...));
  } else {
    T from[2 * n];
    a.store(from), b.store(from + n);
    const T to[n] = {from[Index]...};
    return pack<T>::load(to);
  }
}

template <class V>
struct scalar_of {
  using type = typename V::value_type;
};
template <real T>
struct scalar_of<T> {
  using type = T;
};

}  // namespace impl
template <number V>
using scalar_t = typename impl::scalar_of<V>::type;

}  // namespace SWIGLU_ABI
}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// Several registers as one number. Every primitive is applied to each register before the next primitive begins, so
// that N chains of dependent operations run interleaved: an exponential is a chain of twenty, and a core that is given
// one after the other waits for most of them.

#include <array>
#include <cstddef>
#include <utility>

#include <swiglu/simd.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// N registers of T. The formulas, which are generic over `number`, take it as they take a pack or a scalar.
template <real T, std::size_t N>
struct pack_group {
  using value_type = T;
  std::array<pack<T>, N> part;

  pack_group() = default;
  [[gnu::always_inline]] explicit pack_group(T x) { part.fill(pack<T>(x)); }
  [[gnu::always_inline]] explicit pack_group(const std::array<pack<T>, N>& parts) : part(parts) {}

  [[gnu::always_inline]] friend pack_group operator+(pack_group a, pack_group b) {
    return each(
        [](auto x, auto y) __attribute__((always_inline)) { return x + y; }, a, b);
  }
  [[gnu::always_inline]] friend pack_group operator-(pack_group a, pack_group b) {
    return each(
        [](auto x, auto y) __attribute__((always_inline)) { return x - y; }, a, b);
  }
  [[gnu::always_inline]] friend pack_group operator*(pack_group a, pack_group b) {
    return each(
        [](auto x, auto y) __attribute__((always_inline)) { return x * y; }, a, b);
  }
  [[gnu::always_inline]] friend pack_group operator/(pack_group a, pack_group b) {
    return each(
        [](auto x, auto y) __attribute__((always_inline)) { return x / y; }, a, b);
  }
  [[gnu::always_inline]] friend pack_group operator-(pack_group a) {
    return each(
        [](auto x) __attribute__((always_inline)) { return -x; }, a);
  }
  [[gnu::always_inline]] friend pack_group fma(pack_group a, pack_group b, pack_group c) {
    return each(
        [](auto x, auto y, auto z) __attribute__((always_inline)) { return fma(x, y, z); }, a, b, c);
  }
  [[gnu::always_inline]] friend pack_group abs(pack_group a) {
    return each(
        [](auto x) __attribute__((always_inline)) { return abs(x); }, a);
  }
  [[gnu::always_inline]] friend pack_group if_negative(pack_group a, pack_group yes, pack_group no) {
    return each(
        [](auto x, auto y, auto z) __attribute__((always_inline)) { return if_negative(x, y, z); }, a, yes, no);
  }
  [[gnu::always_inline]] friend pack_group at_least(pack_group a, pack_group low) {
    return each(
        [](auto x, auto y) __attribute__((always_inline)) { return at_least(x, y); }, a, low);
  }
  [[gnu::always_inline]] friend pack_group at_most(pack_group a, pack_group high) {
    return each(
        [](auto x, auto y) __attribute__((always_inline)) { return at_most(x, y); }, a, high);
  }
  [[gnu::always_inline]] friend pack_group reciprocal(pack_group a) {
    return each(
        [](auto x) __attribute__((always_inline)) { return reciprocal(x); }, a);
  }
  [[gnu::always_inline]] friend pack_group nearest(pack_group a) {
    return each(
        [](auto x) __attribute__((always_inline)) { return nearest(x); }, a);
  }
  [[gnu::always_inline]] friend pack_group times_power_of_two(pack_group a, pack_group n) {
    return each(
        [](auto x, auto y) __attribute__((always_inline)) { return times_power_of_two(x, y); }, a, n);
  }

 private:
  template <class F, class... G>
  [[gnu::always_inline]] static pack_group each(const F& f, const G&... of) {
    pack_group result;
    [&]<std::size_t... Nth>(std::index_sequence<Nth...>) __attribute__((always_inline)) {
      const auto one = [&]<std::size_t Part>() __attribute__((always_inline)) {
        result.part[Part] = f(of.part[Part]...);
      };
      (one.template operator()<Nth>(), ...);
    }
    (std::make_index_sequence<N>{});
    return result;
  }
};

}  // namespace SWIGLU_ABI
}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// Numbers that are the same on every machine.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include <swiglu/tensor.hpp>

namespace test {

/// For loops over a few numbers: for (const std::size_t n : sizes{1, 2, 3}).
using sizes = std::initializer_list<std::size_t>;

/// SplitMix64 (Steele, Lea, Flood 2014).
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// From -most .. most. Sums of products of such numbers are exact as long as they stay below 2^24 (float).
  int integer(int most) { return static_cast<int>(bits() % static_cast<std::uint64_t>(2 * most + 1)) - most; }

 private:
  std::uint64_t state_;
};

/// f() for every element of a tensor or view of any rank, or of panels.
template <class X, class F>
void fill_with(X&& to, F f) {
  using T = typename std::remove_cvref_t<X>::value_type;
  for (std::size_t r = 0; r < to.rows(); ++r)
    for (std::size_t c = 0; c < to.cols(); ++c) {
      if constexpr (requires { to.pitch(); })
        to.data()[r * to.pitch() + c] = static_cast<T>(f());
      else
        to(r, c) = static_cast<T>(f());
    }
}
template <class X>
void fill(X&& to, std::uint64_t seed, double low = -1, double high = 1) {
  random_numbers numbers(seed);
  fill_with(to, [&] { return numbers.uniform(low, high); });
}
template <class X>
void fill_integers(X&& to, std::uint64_t seed, int most = 4) {
  random_numbers numbers(seed);
  fill_with(to, [&] { return numbers.integer(most); });
}

template <class T>
using dynamic_tensor = swiglu::tensor<T, swiglu::dynamic, swiglu::dynamic>;

template <class T>
dynamic_tensor<T> random_tensor(std::size_t rows, std::size_t cols, std::uint64_t seed, double low = -1,
                                double high = 1) {
  dynamic_tensor<T> t(rows, cols);
  fill(t, seed, low, high);
  return t;
}
template <class T>
dynamic_tensor<T> integer_tensor(std::size_t rows, std::size_t cols, std::uint64_t seed, int most = 4) {
  dynamic_tensor<T> t(rows, cols);
  fill_integers(t, seed, most);
  return t;
}

}  // namespace test

// SPDX-License-Identifier: MIT
#pragma once

// The denominator of every figure: how many floating-point operations a second the cores do when nothing but fused
// multiply-adds on registers is to be done, measured in the same process and at the same time as what is divided by it.

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include <swiglu/simd.hpp>

namespace bench {

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// FLOP/s of `Chains` independent chains of multiply-adds, `steps` long.
template <class T, std::size_t Chains>
[[gnu::noinline]] double chains(std::size_t steps) {
  using V = swiglu::pack<T>;
  std::array<V, Chains> x;
  for (std::size_t i = 0; i < Chains; ++i) x[i] = V(static_cast<T>(i));
  const V a(T(0.999)), b(T(0.001));
  const double begin = seconds();
  [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
    for (std::size_t i = 0; i < steps; ++i) ((x[Nth] = fma(x[Nth], a, b)), ...);
  }
  (std::make_index_sequence<Chains>{});
  const double elapsed = seconds() - begin;
  V sum = x[0];
  for (std::size_t i = 1; i < Chains; ++i) sum = sum + x[i];
  T lanes[V::size];
  sum.store(lanes);
  volatile T keep = lanes[0];
  static_cast<void>(keep);
  return 2.0 * static_cast<double>(Chains * V::size * steps) / elapsed;
}

/// The best of several loops on the calling thread: one whose code happens to straddle a fetch boundary reads 5 % low.
/// About 10 ms.
template <class T>
double peak_of_thread() {
  double best = 0;
  for (int round = 0; round < 3; ++round)
    best = std::max({best, chains<T, 8>(60000), chains<T, 10>(50000), chains<T, 12>(40000), chains<T, 13>(40000)});
  return best;
}

/// The sum over `threads` threads that run at the same time.
template <class T>
double peak_flops(std::size_t threads = 1) {
  if (threads == 1) return peak_of_thread<T>();
  std::vector<double> each(threads);
  {
    std::barrier start(static_cast<std::ptrdiff_t>(threads));
    std::vector<std::jthread> team;
    for (double& own : each)
      team.emplace_back([&] {
        start.arrive_and_wait();
        own = peak_of_thread<T>();
      });
  }
  double sum = 0;
  for (const double own : each) sum += own;
  return sum;
}

}  // namespace bench

// SPDX-License-Identifier: MIT
#pragma once

// The denominator of every figure: how many floating-point operations a second the cores do when nothing but fused
// multiply-adds on registers is to be done. The cores of a shared machine change their clock within a second, so the
// figure holds for the moment at which it is taken: see slices.hpp.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include <swiglu/simd.hpp>

#include "clock.hpp"
#include "team.hpp"

namespace bench {

/// FLOP/s of `Chains` independent chains of multiply-adds, `steps` long. By the thread's own clock: a core that is
/// taken away meanwhile, by a thread of somebody's pool that spins, is no slower for that.
template <class T, std::size_t Chains>
[[gnu::noinline]] double chains(std::size_t steps) {
  using V = swiglu::pack<T>;
  std::array<V, Chains> x;
  for (std::size_t i = 0; i < Chains; ++i) x[i] = V(static_cast<T>(i));
  const V a(T(0.999)), b(T(0.001));
  const double begin = thread_seconds();
  [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
    for (std::size_t i = 0; i < steps; ++i) ((x[Nth] = fma(x[Nth], a, b)), ...);
  }
  (std::make_index_sequence<Chains>{});
  const double elapsed = thread_seconds() - begin;
  V sum = x[0];
  for (std::size_t i = 1; i < Chains; ++i) sum = sum + x[i];
  T lanes[V::size];
  sum.store(lanes);
  volatile T keep = lanes[0];
  static_cast<void>(keep);
  return 2.0 * static_cast<double>(Chains * V::size * steps) / elapsed;
}

/// The loop that reads highest on this machine: one whose code happens to straddle a fetch boundary reads 5 % low, and
/// one of few chains waits for the latency. Chosen once in a process.
template <class T>
class peak_loop {
 public:
  static const peak_loop& best() {
    static const peak_loop chosen;
    return chosen;
  }
  /// About a quarter of a millisecond.
  double operator()() const { return run_(steps_); }

 private:
  using loop = double (*)(std::size_t);
  struct copy {
    loop run;
    std::size_t chains;
  };

  peak_loop() {
    constexpr copy copies[] = {
        {chains<T, 8>, 8}, {chains<T, 10>, 10}, {chains<T, 12>, 12}, {chains<T, 13>, 13}, {chains<T, 16>, 16}};
    constexpr std::size_t multiply_adds = 400000;
    double most = 0;
    std::array<double, std::size(copies)> rate{};
    for (int round = 0; round < 9; ++round)
      for (std::size_t i = 0; i < rate.size(); ++i)
        rate[i] = std::max(rate[i], copies[i].run(multiply_adds / copies[i].chains));
    for (std::size_t i = 0; i < rate.size(); ++i)
      if (rate[i] > most) {
        most = rate[i];
        run_ = copies[i].run;
        const double per_second = most / (2.0 * static_cast<double>(copies[i].chains * swiglu::pack<T>::size));
        steps_ = static_cast<std::size_t>(per_second * 0.25e-3);
      }
  }
  loop run_ = nullptr;
  std::size_t steps_ = 0;
};

/// FLOP/s of `threads` threads that run at the same time: the best of a few bursts of each, since an interruption only
/// ever makes one slower.
template <class T>
double peak_flops(std::size_t threads = 1, std::size_t bursts = 4) {
  const peak_loop<T>& burst = peak_loop<T>::best();
  const auto best = [&] {
    double most = 0;
    for (std::size_t i = 0; i < bursts; ++i) most = std::max(most, burst());
    return most;
  };
  if (threads == 1) return best();
  std::vector<double> each(threads);
  team_of(threads).run(threads, [&](std::size_t i) { each[i] = best(); });
  double sum = 0;
  for (const double own : each) sum += own;
  return sum;
}

}  // namespace bench

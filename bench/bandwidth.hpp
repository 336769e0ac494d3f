// SPDX-License-Identifier: MIT
#pragma once

// The other denominator: how many bytes a second the cores read, or copy, in a given stretch of memory when nothing
// else is to be done. The memory is that of the work itself, so that the caches hold as much of it as they hold for the
// work. How it is best read depends on the machine and on the cache that it fits into: several streams at once, or
// asking ahead. The best of a few ways is chosen first, then used alone.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <swiglu/gemm/prefetch.hpp>
#include <swiglu/simd.hpp>

#include "clock.hpp"
#include "team.hpp"

namespace bench {

/// Adds up `memory`, cut into Streams parts that are read side by side; asks `Ahead` elements ahead.
template <std::size_t Streams, std::size_t Ahead>
[[gnu::noinline]] void read_streams(std::span<const float> memory) {
  using V = swiglu::pack<float>;
  constexpr std::size_t line = 16, unrolled = 16 / Streams;
  const std::size_t part = memory.size() / Streams / (unrolled * line) * (unrolled * line);
  std::array<V, Streams * unrolled> sum;
  sum.fill(V(0.0f));
  const float* const data = memory.data();
  for (std::size_t i = 0; i < part; i += unrolled * line) [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
      const auto one = [&]<std::size_t N>() __attribute__((always_inline)) {
        const float* const p = data + N % Streams * part + i + N / Streams * line;
        if constexpr (Ahead > 0) swiglu::prefetch<swiglu::access::read>(p + Ahead);
        for (std::size_t e = 0; e < line; e += V::size) sum[N] = sum[N] + V::load(p + e);
      };
      (one.template operator()<Nth>(), ...);
    }
  (std::make_index_sequence<Streams * unrolled>{});
  V all = sum[0];
  for (std::size_t i = 1; i < sum.size(); ++i) all = all + sum[i];
  float lanes[V::size];
  all.store(lanes);
  volatile float keep = lanes[0];
  static_cast<void>(keep);
}

/// Exchanges the halves of `memory`: what is written was read before, so that no line is fetched only to be
/// overwritten.
template <std::size_t Ahead>
[[gnu::noinline]] void exchange_halves(std::span<float> memory) {
  using V = swiglu::pack<float>;
  constexpr std::size_t line = 16;
  const std::size_t half = memory.size() / 2 / line * line;
  float *const low = memory.data(), *const high = low + half;
  for (std::size_t i = 0; i < half; i += line) {
    if constexpr (Ahead > 0) {
      swiglu::prefetch<swiglu::access::write>(low + i + Ahead);
      swiglu::prefetch<swiglu::access::write>(high + i + Ahead);
    }
    for (std::size_t e = i; e < i + line; e += V::size) {
      const V was_low = V::load(low + e), was_high = V::load(high + e);
      was_high.store(low + e), was_low.store(high + e);
    }
  }
}
/// Copies the first half to the second by the C library, at once (which passes by the caches if it is long) or in
/// pieces (which does not).
template <std::size_t Piece>
[[gnu::noinline]] void copy_pieces(std::span<float> memory) {
  const std::size_t half = memory.size() / 2;
  for (std::size_t i = 0; i < half; i += Piece)
    std::memcpy(memory.data() + half + i, memory.data() + i, std::min(Piece, half - i) * sizeof(float));
}

namespace detail {

/// A way to pass over memory, and the bytes that it reads and writes for every byte of it.
template <class Memory>
struct pass {
  void (*run)(Memory);
  double traffic;
};
inline constexpr std::array<pass<std::span<const float>>, 9> reads{{{read_streams<1, 0>, 1},
                                                                    {read_streams<2, 0>, 1},
                                                                    {read_streams<4, 0>, 1},
                                                                    {read_streams<8, 0>, 1},
                                                                    {read_streams<1, 256>, 1},
                                                                    {read_streams<1, 1024>, 1},
                                                                    {read_streams<2, 512>, 1},
                                                                    {read_streams<4, 256>, 1},
                                                                    {read_streams<8, 128>, 1}}};
inline constexpr std::array<pass<std::span<float>>, 5> copies{{{exchange_halves<0>, 2},
                                                               {exchange_halves<256>, 2},
                                                               {exchange_halves<1024>, 2},
                                                               {copy_pieces<1024>, 1},
                                                               {copy_pieces<std::size_t{1} << 40>, 1}}};

}  // namespace detail

/// Bytes a second, read or read and written, of the best way to pass over memory, by as many threads at once as there
/// are parts of it.
template <class Element>
class bandwidth {
 public:
  using memory = std::span<Element>;

  /// `parts[t]` is what thread t passes over; all of it is one footprint. Owns nothing. Chooses the best way.
  explicit bandwidth(std::vector<std::vector<memory>> parts) : parts_(std::move(parts)) {
    double most = 0;
    for (const auto& way : ways()) {
      double rate = 0;
      for (int round = 0; round < 4; ++round) rate = std::max(rate, measured(way));
      if (rate > most) {
        most = rate;
        best_ = way;
      }
    }
  }

  /// Bytes a second: one pass, or as many as take a third of a millisecond.
  double operator()() const { return measured(best_); }

 private:
  using pass = detail::pass<memory>;

  static constexpr auto& ways() {
    if constexpr (std::is_const_v<Element>)
      return detail::reads;
    else
      return detail::copies;
  }
  double measured(const pass& way) const {
    std::vector<double> rate(parts_.size());
    std::atomic<std::size_t> missing = parts_.size();
    team_of(parts_.size()).run(parts_.size(), [&](std::size_t t) {
      for (--missing; missing != 0;) {
      }
      const double begin = seconds();
      double elapsed = 0, bytes = 0;
      do {
        for (const auto& m : parts_[t]) {
          way.run(m);
          bytes += way.traffic * static_cast<double>(m.size_bytes());
        }
        elapsed = seconds() - begin;
      } while (elapsed < 0.3e-3);
      rate[t] = bytes / elapsed;
    });
    double sum = 0;
    for (const double own : rate) sum += own;
    return sum;
  }

  std::vector<std::vector<memory>> parts_;
  pass best_{};
};

/// Reading spans by `threads` threads, each of which reads its share of every span.
inline bandwidth<const float> read_bandwidth(std::span<const std::span<const float>> all, std::size_t threads) {
  std::vector<std::vector<std::span<const float>>> parts(threads);
  for (const auto& m : all)
    for (std::size_t t = 0; t < threads; ++t) {
      const std::size_t first = m.size() * t / threads, last = m.size() * (t + 1) / threads;
      parts[t].push_back(m.subspan(first, last - first));
    }
  return bandwidth<const float>(std::move(parts));
}

}  // namespace bench

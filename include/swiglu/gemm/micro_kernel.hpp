// SPDX-License-Identifier: MIT
#pragma once

// The innermost loop: Rows x Vectors accumulators in registers, one row of the right operand and one broadcast of the
// left a step. Every element is summed in ascending k in one accumulator, whatever the tile, so that the blocking and
// the number of threads never change a bit of the result.

#include <array>
#include <cstddef>
#include <utility>

#include <swiglu/gemm/operand.hpp>
#include <swiglu/gemm/prefetch.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

namespace impl {
/// f<row, column>() for every register of a tile, row by row. Every index is a template argument: an array that g++
/// once saw under a variable index stays in memory.
template <std::size_t Rows, std::size_t Columns, class F>
[[gnu::always_inline]] inline void each_register(const F& f) {
  [&]<std::size_t... Nth>(std::index_sequence<Nth...>) __attribute__((always_inline)) {
    (f.template operator()<Nth / Columns, Nth % Columns>(), ...);
  }
  (std::make_index_sequence<Rows * Columns>{});
}
}  // namespace impl

/// What a micro-kernel reads and writes.
template <real T>
struct kernel_operands {
  const T* left;                             ///< element (0, 0) of the tile's rows, in panels
  std::size_t left_stride;                   ///< from one strip of the left operand to the next
  std::size_t left_run;                      ///< columns that a strip of the left operand offers
  std::array<const T*, most_vectors> right;  ///< the first row of each register's columns of the right operand
  std::size_t right_pitch;                   ///< from one of its rows to the next
  std::size_t depth;
  T* tile;                             ///< Rows x Vectors registers, consecutive
  bool accumulate;                     ///< add to the tile instead of overwriting it
  const void* const* ahead = nullptr;  ///< lines to ask for meanwhile
  std::size_t lines_ahead = 0;
};

/// tile (+)= left right. `Transposed`: the left operand's rows are consecutive columns of one strip of the panels and
/// its depth runs down their rows; otherwise they are consecutive rows and the depth runs along the strips.
template <real T, std::size_t Rows, std::size_t Vectors, bool Transposed>
struct micro_kernel {
  static constexpr std::size_t rows = Rows, vectors = Vectors;

  [[gnu::noinline]] static void run(const kernel_operands<T>& o) {
    constexpr std::size_t width = Vectors * V::size, strip = strip_columns<T>;
    V sum[Rows][Vectors];
    T* const tile = o.tile;  // a copy: a store of registers could change o, for all the compiler knows
    impl::each_register<Rows, Vectors>([&]<std::size_t R, std::size_t C>() __attribute__((always_inline)) {
      sum[R][C] = o.accumulate ? V::load(tile + R * width + C * V::size) : V(T(0));
    });

    std::size_t b = 0;
    const std::array<const T*, most_vectors> right = o.right;
    const std::size_t pitch = o.right_pitch;
    const auto step = [&](const T* a) __attribute__((always_inline)) {
      V row[Vectors], x;
      impl::each_register<1, Vectors>([&]<std::size_t, std::size_t C>()
                                          __attribute__((always_inline)) { row[C] = V::load(right[C] + b); });
      impl::each_register<Rows, Vectors>([&]<std::size_t R, std::size_t C>() __attribute__((always_inline)) {
        if constexpr (C == 0) x = V(a[Transposed ? R : R * strip]);
        sum[R][C] = fma(x, row[C], sum[R][C]);
      });
      b += pitch;
    };
    const T* a = o.left;
    const std::size_t run = Transposed ? strip : o.left_run, stride = Transposed ? strip * strip : o.left_stride;
    const void* const* ahead = o.ahead;
    const void* const* const ahead_end = ahead + o.lines_ahead;
    const std::size_t lines = o.depth == 0 ? 0 : ceil_div(o.lines_ahead, ceil_div(o.depth, run));  // in each run
    for (std::size_t left = o.depth; left > 0; a += stride) {
      for (std::size_t i = 0; i < lines && ahead != ahead_end; ++i) prefetch<access::read>(*ahead++);
      constexpr std::size_t next = Transposed ? strip : 1;
      const std::size_t n = left < run ? left : run;
      for (const T *p = a, *end = a + n * next; p != end; p += next) step(p);
      left -= n;
    }

    impl::each_register<Rows, Vectors>([&]<std::size_t R, std::size_t C>() __attribute__((always_inline)) {
      sum[R][C].store(tile + R * width + C * V::size);
    });
  }

 private:
  using V = pack<T>;
};

}  // namespace SWIGLU_ABI
}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// How a product is cut to fit the registers and the caches: a constexpr function of its shape and of the architecture.
//
//     registers   rows x vectors accumulators
//     L1          rows x depth of the left operand (three quarters of it)
//     L2          depth x strips of the right operand (three quarters of it)
//     L3          row_block x depth of the left operand, row_block x strips of partial sums
//
// The narrow operand in L1 and the wide one streamed from L2: Goto and van de Geijn 2008 with the roles of BLIS on
// AVX-512 (Van Zee and van de Geijn 2015), since a depth of 512 makes updating the partial sums cheap.

#include <algorithm>
#include <array>
#include <cstddef>

#include <swiglu/panels.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// Cache sizes in bytes that the blocking is computed for; typical of the instruction set, not probed.
struct cache_sizes {
  std::size_t l1 = 32 * 1024, l2 = 1024 * 1024;
};

#if defined(__AVX512F__)
inline constexpr cache_sizes default_caches{32 * 1024, 1024 * 1024};
inline constexpr std::size_t vector_registers = 32;
#elif defined(__aarch64__)
inline constexpr cache_sizes default_caches{64 * 1024, 512 * 1024};
inline constexpr std::size_t vector_registers = 32;
#else
inline constexpr cache_sizes default_caches{32 * 1024, 512 * 1024};
inline constexpr std::size_t vector_registers = 16;
#endif

/// The micro-kernels that exist, by rows, besides the one of a single row.
inline constexpr std::array<std::size_t, 5> tile_sizes{12, 8, 6, 4, 2};

/// Rows of the micro-kernel's largest tile with `vectors` registers to a row: as many as leave room for a row of the
/// right operand, a broadcast and (with 32 registers) two spare ones, which keeps g++ from spilling.
constexpr std::size_t tile_rows(std::size_t vectors) {
  const std::size_t spare = vector_registers == 32 ? 3 : 1;
  const std::size_t rows = std::min<std::size_t>((vector_registers - spare - vectors) / vectors, 12);
  for (const std::size_t size : tile_sizes)
    if (rows >= size) return size;
  return 1;
}

/// The cut of one product.
struct blocking {
  std::size_t depth;      ///< of a k block; a multiple of the strip
  std::size_t strips;     ///< of the right operand in a block
  std::size_t row_block;  ///< rows whose partial sums are kept between k blocks
};

/// The blocking for strips of `vectors` registers of T; the depth is cut evenly.
template <real T>
constexpr blocking choose_blocking(std::size_t depth, std::size_t strips, std::size_t vectors,
                                   cache_sizes cache = default_caches) {
  constexpr std::size_t step = strip_columns<T>;
  const std::size_t rows = tile_rows(vectors), strip_bytes = vectors * pack<T>::size * sizeof(T);
  const std::size_t most_depth = std::max(cache.l1 / 4 * 3 / (rows * sizeof(T)) / step * step, step);
  const std::size_t k =
      round_up(ceil_div(std::max<std::size_t>(depth, 1), ceil_div(std::max<std::size_t>(depth, 1), most_depth)), step);
  const std::size_t most_strips = std::max<std::size_t>(cache.l2 / 4 * 3 / (k * strip_bytes), 1);
  const std::size_t j =
      ceil_div(std::max<std::size_t>(strips, 1), ceil_div(std::max<std::size_t>(strips, 1), most_strips));
  return {k, j, 1920};  // 1920: a multiple of every tile and strip, so that no block starts inside one
}

/// Whether a row-major right operand [depth, cols] is better copied into strips before `rows` rows are multiplied by
/// it: not if too few of them share the cost, nor if it is small and its rows do not fall on one another in the cache.
template <real T>
constexpr bool worth_packing(std::size_t rows, std::size_t depth, std::size_t cols, std::size_t pitch,
                             cache_sizes cache = default_caches) {
  if (rows <= 2 * tile_rows(2)) return false;
  return depth * cols * sizeof(T) > cache.l2 / 4 || pitch * sizeof(T) % 4096 == 0;
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

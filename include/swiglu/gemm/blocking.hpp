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
#elif defined(__aarch64__)
inline constexpr cache_sizes default_caches{64 * 1024, 512 * 1024};
#else
inline constexpr cache_sizes default_caches{32 * 1024, 512 * 1024};
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

static_assert(tile_rows(2) == impl::tallest_tile);

/// The cut of one product.
struct blocking {
  std::size_t depth;      ///< of a k block; a multiple of the strip
  std::size_t strips;     ///< of the right operand in a block
  std::size_t row_block;  ///< rows whose partial sums are kept between k blocks
};

/// Rows of a block, at most: a multiple of every tile and strip, so that no block starts inside one.
inline constexpr std::size_t most_block_rows = 1920;
/// Strips of a block whose partial sums are kept, at most.
inline constexpr std::size_t most_kept_strips = 16;

/// The deepest k block whose rows of the left operand stay in L1.
template <real T>
constexpr std::size_t most_depth(std::size_t vectors, cache_sizes cache = default_caches) {
  constexpr std::size_t step = strip_columns<T>;
  return std::max(cache.l1 / 4 * 3 / (tile_rows(vectors) * sizeof(T)) / step * step, step);
}

/// The blocking for strips of `vectors` registers of T; depth and strips are cut evenly. `keeps_sums`: partial sums
/// wait between k blocks.
template <real T>
constexpr blocking choose_blocking(std::size_t depth, std::size_t strips, std::size_t vectors, bool keeps_sums = false,
                                   cache_sizes cache = default_caches) {
  const auto evenly = [](std::size_t n, std::size_t most) {
    const std::size_t whole = std::max<std::size_t>(n, 1);
    return ceil_div(whole, ceil_div(whole, most));
  };
  const std::size_t k = round_up(evenly(depth, most_depth<T>(vectors, cache)), strip_columns<T>);
  const std::size_t strip_bytes = vectors * pack<T>::size * sizeof(T);
  const std::size_t fit = std::max<std::size_t>(cache.l2 / 2 / (k * strip_bytes), 1);
  return {k, evenly(strips, keeps_sums ? std::min(fit, most_kept_strips) : fit), most_block_rows};
}

/// Rows of strips (depth x strips) that a block of the right operand has at most: unlike the cut itself this never
/// shrinks as the product grows, so that memory for the largest product serves all.
template <real T>
constexpr std::size_t right_block_bound(std::size_t depth, std::size_t strips, std::size_t vectors,
                                        cache_sizes cache = default_caches) {
  const std::size_t fit = cache.l2 / 2 / (vectors * pack<T>::size * sizeof(T));
  const std::size_t all =
      round_up(std::max<std::size_t>(depth, 1), strip_columns<T>) * std::max<std::size_t>(strips, 1);
  return std::min(all, std::max(fit, most_depth<T>(vectors, cache)));
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

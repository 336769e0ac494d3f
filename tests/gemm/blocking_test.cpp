// SPDX-License-Identifier: MIT

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>

#include <swiglu/gemm/blocking.hpp>

#include "support/compare.hpp"

using namespace swiglu;

// The blocking is known at compile time.
static_assert(choose_blocking<float>(1024, 100, 2).depth % strip_columns<float> == 0);

TEST_CASE("a tile fits into the registers, and its size is one that exists") {
  for (std::size_t vectors = 1; vectors <= 4; ++vectors) {
    const std::size_t rows = tile_rows(vectors);
    CHECK(rows * vectors + vectors + 1 <= vector_registers);
    CHECK((rows == 1 || std::find(tile_sizes.begin(), tile_sizes.end(), rows) != tile_sizes.end()));
    if (vectors > 1) CHECK(rows <= tile_rows(vectors - 1));
  }
}

TEST_CASE_TEMPLATE("blocks cover the product, start between strips, and fit into the caches", T, float, double) {
  test::tally cases;
  const std::size_t sizes[] = {0, 1, 31, 32, 33, 511, 512, 513, 1000, 1024, 2816, 14336, 1000000};
  for (const cache_sizes cache :
       {default_caches, cache_sizes{1, 1}, cache_sizes{4096, 16384}, cache_sizes{48 << 10, 2 << 20}})
    for (std::size_t vectors = 1; vectors <= 4; ++vectors)
      for (const std::size_t depth : sizes)
        for (const std::size_t strips : sizes) {
          const bool keeps = (depth + strips) % 2 == 1;
          const blocking b = choose_blocking<T>(depth, strips, vectors, keeps, cache);
          const std::size_t width = vectors * pack<T>::size * sizeof(T), step = strip_columns<T>;
          cases(b.depth >= step && b.depth % step == 0, "depth", depth, strips);
          cases(b.strips >= 1 && b.strips <= std::max<std::size_t>(strips, 1), "strips", depth, strips);
          cases(b.depth < round_up(std::max<std::size_t>(depth, 1), step) + step, "no deeper than the product", depth);
          cases(b.depth == step || b.depth * tile_rows(vectors) * sizeof(T) <= cache.l1, "L1", depth, strips);
          cases(b.strips == 1 || b.depth * b.strips * width <= cache.l2, "L2", depth, strips);
          cases(!keeps || b.strips <= most_kept_strips, "kept sums", depth, strips);
          cases(b.depth * b.strips <= right_block_bound<T>(depth, strips, vectors, cache), "bound", depth, strips);
          for (const std::size_t rows : tile_sizes) cases(b.row_block % rows == 0, "rows", rows);
          cases(b.row_block % step == 0, "strip", step);
        }
  CHECK(cases);
}

TEST_CASE_TEMPLATE("memory for the block of a large product serves a smaller one", T, float, double) {
  test::tally cases;
  const auto bound = [](std::size_t depth, std::size_t strips) { return right_block_bound<T>(depth, strips, 2); };
  for (std::size_t depth = 0; depth < 1200; ++depth)
    for (const std::size_t strips : {1U, 5U, 12U, 40U, 200U}) {
      cases(bound(depth, strips) <= bound(depth + 1, strips), depth, strips);
      cases(bound(depth, strips) <= bound(depth, strips + 1), depth, strips);
    }
  CHECK(cases);
}

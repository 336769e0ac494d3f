// SPDX-License-Identifier: MIT
#pragma once

// The epilogue: what happens to a tile of finished products. A function of its own, called with the tile in L1, since a
// formula inside the k-loop's function would make the compiler spill the accumulators.

#include <array>
#include <cstddef>

#include <swiglu/gemm/operand.hpp>
#include <swiglu/gemm/prefetch.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// Finished products: `rows` rows from `row` on, `cols` columns from `col` on (col a multiple of the register; lanes
/// behind cols are padding). Element (r, c) of group g, relative to (row, col), is group[g][r * pitch[g] + c].
template <real T>
struct product_tile {
  std::size_t row = 0, rows = 0, col = 0, cols = 0;
  std::array<const T*, most_groups> group{};
  std::array<std::size_t, most_groups> pitch{};
};

/// A reference to any callable that takes a tile: lets the engine be compiled once for all epilogues. Its `prefetch`,
/// if it has one, asks for the memory that the call with the same tile will touch; nothing in that tile is computed
/// yet.
template <real T>
class epilogue_ref {
 public:
  template <class F>
  explicit epilogue_ref(const F& f)
      : object_(&f), call_([](const void* object, const product_tile<T>& t) { (*static_cast<const F*>(object))(t); }) {
    if constexpr (requires(const product_tile<T>& t, prefetch_list& list) { f.prefetch(t, list); })
      prefetch_ = [](const void* object, const product_tile<T>& t, prefetch_list& list) {
        static_cast<const F*>(object)->prefetch(t, list);
      };
  }
  void operator()(const product_tile<T>& t) const { call_(object_, t); }
  void prefetch(const product_tile<T>& t, prefetch_list& list) const {
    if (prefetch_ != nullptr) prefetch_(object_, t, list);
  }

 private:
  using function = void (*)(const void*, const product_tile<T>&);
  const void* object_;
  function call_;
  void (*prefetch_)(const void*, const product_tile<T>&, prefetch_list&) = nullptr;
};

}  // namespace SWIGLU_ABI
}  // namespace swiglu

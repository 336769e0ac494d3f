// SPDX-License-Identifier: MIT
#pragma once

// Operands of products in every way the kernels can read them, in guarded memory.

#include <array>
#include <cstddef>
#include <memory>
#include <ostream>

#include <swiglu/gemm/operand.hpp>

#include "guarded.hpp"
#include "random.hpp"

namespace test {

enum class layout { rows, whole, first, second };  ///< row-major, panels, either half of paired panels

struct operand_kind {
  layout in = layout::rows;
  bool transposed = false;

  friend std::ostream& operator<<(std::ostream& out, const operand_kind& kind) {
    static constexpr std::array names{"row-major", "panels", "first half", "second half"};
    return out << names[static_cast<std::size_t>(kind.in)] << (kind.transposed ? " transposed" : "");
  }
};

/// The leading `rows` x `cols` elements of a matrix, stored as `kind` says. The other half of paired panels is NaN.
template <class T>
class stored {
 public:
  template <class X>
  stored(const X& from, std::size_t rows, std::size_t cols, operand_kind kind) : kind_(kind) {
    const std::size_t down = kind.transposed ? cols : rows, along = kind.transposed ? rows : cols;
    const auto copy = [&](const auto& to) {
      for (std::size_t r = 0; r < down; ++r)
        for (std::size_t c = 0; c < along; ++c) to(r, c) = kind.transposed ? element(from, c, r) : element(from, r, c);
    };
    if (kind.in == layout::rows) {
      rows_ = std::make_unique<guarded<T>>(down, along, along + 3, 1);
      copy(rows_->view());
    } else if (kind.in == layout::whole) {
      whole_ = std::make_unique<guarded_panels<T>>(down, along);
      copy(whole_->view());
    } else {
      pair_ = std::make_unique<guarded_panels<T, true>>(down, along);
      fill_with(kind.in == layout::first ? pair_->second() : pair_->first(), [] { return canary<T>(); });
      copy(half());
    }
  }

  swiglu::left_operand<T> left() const {
    if (whole_)
      return {whole_->view().data(), whole_->view().strip_stride(), swiglu::strip_columns<T>, kind_.transposed};
    return {half().data(), half().strip_stride(), half().run, kind_.transposed};
  }
  swiglu::right_operand<T> right() const {
    if (rows_) return {rows_->view().data(), rows_->view().pitch(), 0, kind_.transposed};
    if (whole_)
      return {whole_->view().data(), whole_->view().strip_stride(), swiglu::strip_columns<T>, kind_.transposed};
    return {half().data(), half().strip_stride(), half().run, kind_.transposed};
  }

  /// The memory as a view of the type that `In` has; the matrix itself, or its transpose.
  template <layout In>
  auto in_memory() const {
    if constexpr (In == layout::rows)
      return rows_->view();
    else if constexpr (In == layout::whole)
      return whole_->view();
    else
      return half();
  }

 private:
  swiglu::panel_view<T, swiglu::strip_columns<T> / 2> half() const {
    return kind_.in == layout::first ? pair_->first() : pair_->second();
  }

  operand_kind kind_;
  std::unique_ptr<guarded<T>> rows_;
  std::unique_ptr<guarded_panels<T>> whole_;
  std::unique_ptr<guarded_panels<T, true>> pair_;
};

/// The extents and depths that products are tried with: around registers, strips, tiles and k blocks.
inline constexpr std::array<std::size_t, 17> extents_tried{1, 2, 3, 5, 7, 8, 9, 12, 13, 15, 16, 17, 31, 32, 33, 47, 65};
inline constexpr std::array<std::size_t, 11> depths_tried{0, 1, 2, 31, 32, 33, 95, 511, 512, 513, 1100};
inline constexpr std::size_t most_extent = 65, most_depth = 1100;

/// f(rows, cols, depth) for every `stride`-th shape from `first` on. Strides are not multiples of 11 or 17.
template <class F>
void each_shape(std::size_t first, std::size_t stride, F f) {
  std::size_t i = 0;
  for (const std::size_t depth : depths_tried)
    for (const std::size_t rows : extents_tried)
      for (const std::size_t cols : extents_tried)
        if (i++ % stride == first % stride) f(rows, cols, depth);
}

/// Integers, whose products are exact, and the products themselves for every depth tried.
template <class T>
struct exact_products {
  dynamic_tensor<T> left = integer_tensor<T>(most_extent, most_depth, 1);
  dynamic_tensor<T> right = integer_tensor<T>(most_depth, most_extent, 2);
  std::array<matrix, depths_tried.size()> of_depth;

  exact_products() {
    for (std::size_t i = 0; i < depths_tried.size(); ++i) {
      of_depth[i] = product(to_matrix(left.view().column_block(0, depths_tried[i])),
                            to_matrix(right.view().row_block(0, depths_tried[i])));
    }
  }
  /// The leading rows x cols elements of the product of a depth tried.
  matrix expected(std::size_t rows, std::size_t cols, std::size_t depth) const {
    std::size_t i = 0;
    while (depths_tried[i] != depth) ++i;
    return generate(rows, cols, [&](std::size_t r, std::size_t c) { return of_depth[i](r, c); });
  }
};

}  // namespace test

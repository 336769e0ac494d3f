// SPDX-License-Identifier: MIT
#pragma once

// One of two matrices that lie in one memory by turns: a block of rows, or of columns, of the first, then as many of
// the second, and so on. Gate and up of some checkpoints are kept like that (mlp/layout.hpp).

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <swiglu/shape.hpp>

namespace swiglu {

/// What the blocks of an interleaved matrix are made of.
enum class along { rows, columns };

namespace detail {
/// Where row, or column, i is in memory of which every other block belongs to another matrix.
constexpr std::size_t interleaved_place(std::size_t i, std::size_t block) { return i + i / block * block; }
}  // namespace detail

/// Borrowed: a matrix [Rows, Cols] whose rows (or columns) i have their place i + i / block * block in row-major memory
/// with `pitch` elements from row to row. Shallow constness, like view.
template <class T, std::size_t Rows, std::size_t Cols, along Axis>
class interleaved_view {
 public:
  using element_type = T;
  using value_type = std::remove_const_t<T>;
  using extents_type = extents<Rows, Cols>;
  static constexpr std::size_t static_rows = Rows, static_cols = Cols;
  static constexpr along axis = Axis;

  /// `data`: element (0, 0). Throws shape_error unless a row of the memory is whole pairs of blocks, or, along rows, at
  /// least as long as that of the matrix.
  interleaved_view(T* data, extents_type shape, std::size_t pitch, std::size_t block)
      : data_(data), pitch_(pitch), block_(block), shape_(shape) {
    if (block == 0) throw shape_error("interleaved: rows or columns of a block", 1, block);
    if (Axis == along::columns && (pitch % block != 0 || pitch / block % 2 != 0))
      throw shape_error("interleaved: the row pitch is whole pairs of blocks", round_up(pitch, 2 * block), pitch);
    const std::size_t least =
        Axis == along::rows ? shape.cols() : (shape.cols() == 0 ? 0 : place(shape.cols() - 1) + 1);
    if (pitch < least) throw shape_error("interleaved: row pitch is below the columns", least, pitch);
  }

  /// A view of the same elements, read-only or with more or fewer extents static. Throws shape_error on a mismatch.
  template <class U, std::size_t R, std::size_t C>
    requires(std::convertible_to<U (*)[], T (*)[]>&& std::constructible_from<extents_type, extents<R, C>> &&
             !std::same_as<interleaved_view<U, R, C, Axis>, interleaved_view>)
  interleaved_view(interleaved_view<U, R, C, Axis> v)  // NOLINT: a conversion
      : interleaved_view(v.data(), extents_type(v.shape()), v.pitch(), v.block()) {}

  T* data() const { return data_; }
  const extents_type& shape() const { return shape_; }
  std::size_t rows() const { return shape_.rows(); }
  std::size_t cols() const { return shape_.cols(); }
  std::size_t pitch() const { return pitch_; }
  std::size_t block() const { return block_; }
  /// The address of (row, col); not checked.
  [[gnu::always_inline]] T* at(std::size_t row, std::size_t col) const {
    return Axis == along::rows ? data_ + place(row) * pitch_ + col : data_ + row * pitch_ + place(col);
  }
  T& operator()(std::size_t row, std::size_t col) const { return *at(row, col); }
  /// Whether `n` columns, from a multiple of n on, are consecutive in memory.
  bool consecutive(std::size_t n) const { return Axis == along::rows || block_ % n == 0; }

 private:
  std::size_t place(std::size_t i) const { return detail::interleaved_place(i, block_); }

  T* data_;
  std::size_t pitch_, block_;
  [[no_unique_address]] extents_type shape_;
};

namespace detail {
template <class X>
inline constexpr bool is_interleaved = false;
template <class T, std::size_t Rows, std::size_t Cols, along Axis>
inline constexpr bool is_interleaved<interleaved_view<T, Rows, Cols, Axis>> = true;
}  // namespace detail

}  // namespace swiglu

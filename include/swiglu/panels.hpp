// SPDX-License-Identifier: MIT
#pragma once

// The blocked layout of the kernels: strips of P columns (two registers), rows contiguous inside a strip,
//
//     element (r, c)  at  data[(c / P) * strip_stride + r * P + c % P]
//
// The same bytes are a left operand (broadcasts from consecutive rows), a transposed left operand (consecutive columns)
// and a right operand (a strip is the packed panel of the micro-kernel). Paired panels hold two matrices of one shape
// in the two halves of each strip, so that both land in the same lanes. Columns are padded with zeros to a whole strip.
// The layout depends on the instruction set: nothing here may cross translation units built for different ones.

#include <cstddef>
#include <type_traits>
#include <utility>

#include <swiglu/simd.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// Vector registers that the instruction set names.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr std::size_t vector_registers = 32;
#else
inline constexpr std::size_t vector_registers = 16;
#endif

/// P: columns of a strip.
template <real T>
inline constexpr std::size_t strip_columns = 2 * pack<T>::size;

/// Borrowed panels, of which each strip offers `Run` columns: all P, or one half of a paired strip.
template <class T, std::size_t Run>
class panel_view {
 public:
  using element_type = T;
  using value_type = std::remove_const_t<T>;
  static constexpr std::size_t strip = strip_columns<value_type>;
  static constexpr std::size_t run = Run;
  static_assert(Run == strip || Run == strip / 2);
  static constexpr std::size_t static_rows = dynamic, static_cols = dynamic;

  panel_view() = default;
  panel_view(T* data, std::size_t rows, std::size_t cols, std::size_t strip_stride)
      : data_(data), rows_(rows), cols_(cols), strip_stride_(strip_stride) {}
  template <class U>
    requires(std::is_const_v<T>&& std::same_as<U, value_type>)
  panel_view(panel_view<U, Run> v)  // NOLINT: a conversion
      : panel_view(v.data(), v.rows(), v.cols(), v.strip_stride()) {}

  T* data() const { return data_; }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  /// Elements from one strip to the next.
  std::size_t strip_stride() const { return strip_stride_; }
  /// The address of (row, col): the `Run - col % Run` elements from there on are consecutive.
  [[gnu::always_inline]] T* at(std::size_t row, std::size_t col) const {
    return data_ + (col / Run) * strip_stride_ + row * strip + col % Run;
  }
  T& operator()(std::size_t row, std::size_t col) const { return *at(row, col); }

 private:
  T* data_ = nullptr;
  std::size_t rows_ = 0, cols_ = 0, strip_stride_ = 0;
};

namespace impl {
/// Rows of the tallest micro-kernel of two registers to a row (gemm/blocking.hpp).
inline constexpr std::size_t tallest_tile = vector_registers == 32 ? 12 : 6;

/// Rows from one strip to the next. Strips a power of two apart would share the sets of the caches; long ones lie a
/// multiple of 4 KiB (what one way of L1 holds) plus the rows of a micro-kernel's tile apart, so that the pieces of a
/// tile in its strips follow one another there as if they were consecutive. Short ones cannot afford that: an odd
/// number of rows.
template <real T>
constexpr std::size_t strip_rows(std::size_t rows) {
  constexpr std::size_t way = 4096 / (strip_columns<T> * sizeof(T)), tile = tallest_tile;
  const bool is_long = rows >= 8 * way && rows < static_cast<std::size_t>(-1) - way;  // beyond, it would wrap around
  return is_long ? round_up(rows - tile, way) + tile : rows | 1;
}
/// Columns in memory where each strip holds `Run` of a matrix. Unlike round_up and ceil_div it cannot wrap around.
template <real T, std::size_t Run>
constexpr std::size_t padded_columns(std::size_t cols) {
  return checked_product(cols / Run + (cols % Run != 0 ? 1 : 0), strip_columns<T>);
}
}  // namespace impl

/// Owned panels of at most `capacity` rows. A smaller number of rows may be set at any time without allocating; that
/// leaves the elements unspecified. Padding stays zero because every writer writes whole strips.
template <real T>
class panels {
 public:
  panels() = default;
  /// Throws std::length_error if there are more elements, padding included, than std::size_t counts.
  panels(std::size_t capacity, std::size_t cols, storage memory = storage::owned)
      : cols_(cols),
        rows_(capacity),
        capacity_(capacity),
        memory_(memory == storage::none ? 0
                                        : checked_product(impl::padded_columns<T, strip_columns<T>>(cols),
                                                          capacity == 0 ? 0 : impl::strip_rows<T>(capacity))) {}

  panels(panels&& other) noexcept { *this = std::move(other); }
  panels& operator=(panels&& other) noexcept {
    cols_ = std::exchange(other.cols_, 0);
    rows_ = std::exchange(other.rows_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    memory_ = std::move(other.memory_);
    return *this;
  }

  /// Throws shape_error above the capacity.
  void set_rows(std::size_t rows) {
    if (rows > capacity_) throw shape_error("panels: rows above the capacity", capacity_, rows);
    rows_ = rows;
  }
  std::size_t capacity() const { return capacity_; }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t bytes() const { return memory_.size() * sizeof(T); }

  panel_view<T, strip_columns<T>> view() {
    return {memory_.data(), rows_, cols_, impl::strip_rows<T>(rows_) * strip_columns<T>};
  }
  panel_view<const T, strip_columns<T>> view() const {
    return {memory_.data(), rows_, cols_, impl::strip_rows<T>(rows_) * strip_columns<T>};
  }

 private:
  std::size_t cols_ = 0, rows_ = 0, capacity_ = 0;
  buffer<T> memory_;
};

/// Two matrices of the same shape, interleaved by half strips.
template <real T>
class paired_panels {
  static constexpr std::size_t half = strip_columns<T> / 2;

 public:
  paired_panels() = default;
  paired_panels(std::size_t capacity, std::size_t cols, storage memory = storage::owned)
      : cols_(cols), whole_(capacity, impl::padded_columns<T, half>(cols), memory) {}

  void set_rows(std::size_t rows) { whole_.set_rows(rows); }
  std::size_t capacity() const { return whole_.capacity(); }
  std::size_t rows() const { return whole_.rows(); }
  std::size_t cols() const { return cols_; }
  std::size_t bytes() const { return whole_.bytes(); }

  panel_view<T, half> first() { return at_offset<T>(whole_.view(), 0); }
  panel_view<T, half> second() { return at_offset<T>(whole_.view(), half); }
  panel_view<const T, half> first() const { return at_offset<const T>(whole_.view(), 0); }
  panel_view<const T, half> second() const { return at_offset<const T>(whole_.view(), half); }

 private:
  template <class U>
  panel_view<U, half> at_offset(panel_view<U, strip_columns<T>> v, std::size_t offset) const {
    return {v.data() == nullptr ? nullptr : v.data() + offset, v.rows(), cols_, v.strip_stride()};
  }
  std::size_t cols_ = 0;
  panels<T> whole_;
};

namespace impl {
template <class X>
inline constexpr bool is_panel_view = false;
template <class T, std::size_t Run>
inline constexpr bool is_panel_view<panel_view<T, Run>> = true;
}  // namespace impl

}  // namespace SWIGLU_ABI
}  // namespace swiglu

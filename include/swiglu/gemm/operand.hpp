// SPDX-License-Identifier: MIT
#pragma once

// What a product reads, described by run-time values: one engine serves every shape and every expression, and only the
// epilogue is compiled for each. Left operands are always panels; right operands are row-major or panels, and both may
// be transposed. An operand without elements may have no memory either: then its blocks have none, since no address may
// be made from a null pointer.

#include <array>
#include <cstddef>
#include <span>

#include <swiglu/interleaved.hpp>
#include <swiglu/panels.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// Panels as a left operand [rows, depth]; `transposed`: the panels hold its transpose.
template <real T>
struct left_operand {
  const T* data = nullptr;
  std::size_t strip_stride = 0, run = strip_columns<T>;
  bool transposed = false;

  /// Element (row, k) of the operand; k a multiple of the run unless transposed.
  const T* at(std::size_t row, std::size_t k) const {
    if (data == nullptr) return nullptr;
    const std::size_t r = transposed ? k : row, c = transposed ? row : k;
    return data + (c / run) * strip_stride + r * strip_columns<T> + c % run;
  }
  friend bool operator==(const left_operand&, const left_operand&) = default;
};

/// A right operand [depth, columns]: row-major memory with `pitch` between rows, or panels (run != 0) with `pitch`
/// between strips; `transposed`: the memory holds its transpose. Row-major memory may be interleaved: every other block
/// of `row_block` rows, or of `column_block` columns, belongs to another matrix (0: none does).
template <real T>
struct right_operand {
  const T* data = nullptr;
  std::size_t pitch = 0, run = 0;
  bool transposed = false;
  std::size_t row_block = 0, column_block = 0;

  bool interleaved() const { return row_block != 0 || column_block != 0; }
  /// The place of row, or column, i.
  static std::size_t place(std::size_t i, std::size_t block) { return block == 0 ? i : detail::interleaved_place(i, block); }

  /// The block that starts at (k, column): its address, and the distance of the memory's rows in it. In panels it is
  /// valid up to the end of a run, or of a block.
  struct block {
    const T* data;
    std::size_t pitch;
  };
  block at(std::size_t k, std::size_t column) const {
    if (data == nullptr) return {nullptr, 0};
    const std::size_t r = transposed ? column : k, c = transposed ? k : column;
    if (run == 0) return {data + place(r, row_block) * pitch + place(c, column_block), pitch};
    return {data + (c / run) * pitch + r * strip_columns<T> + c % run, strip_columns<T>};
  }
};

/// One product of a sum: left [rows, depth] times right [depth, columns].
template <real T>
struct product_term {
  left_operand<T> left;
  right_operand<T> right;
  std::size_t depth = 0;
};

/// How many of a sum's terms are accumulated together from number t on: two if their left operands are the halves of
/// the same paired strips, in the order of the strips (a register's worth of depth of the one, then of the other); else
/// one.
template <real T>
inline std::size_t terms_together(std::span<const product_term<T>> terms, std::size_t t) {
  if (t + 1 == terms.size()) return 1;
  constexpr std::size_t half = pack<T>::size;
  const product_term<T>&a = terms[t], &b = terms[t + 1];
  const bool halves = !a.left.transposed && !b.left.transposed && a.left.run == half && b.left.run == half &&
                      a.left.data != nullptr && b.left.data == a.left.data + half &&
                      a.left.strip_stride == b.left.strip_stride && a.depth == b.depth;
  return halves ? 2 : 1;
}

/// Registers in a row of a tile, at most.
inline constexpr std::size_t most_vectors = 4;

/// The most products that one kernel may hold.
inline constexpr std::size_t most_groups = 8;

/// One or several sums of products of the same shape [rows, cols].
template <real T>
struct contraction {
  std::size_t rows = 0, cols = 0;
  std::size_t groups = 0;
  std::array<std::span<const product_term<T>>, most_groups> terms{};  ///< of each group; accumulated in this order
};

}  // namespace SWIGLU_ABI
}  // namespace swiglu

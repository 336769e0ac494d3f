// SPDX-License-Identifier: MIT
#pragma once

// Copies a block of a right operand into the strips that the micro-kernel streams, transposing in registers where the
// memory holds the transpose; and copies row-major matrices into panels.

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <swiglu/gemm/operand.hpp>
#include <swiglu/gemm/prefetch.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

namespace impl {

/// The lower (Half = 0) or upper half of a and b, lane by lane in turn.
template <std::size_t Half, real T, std::size_t... Nth>
[[gnu::always_inline]] inline pack<T> interleave(pack<T> a, pack<T> b, std::index_sequence<Nth...>) {
  constexpr std::size_t n = sizeof...(Nth);
  return shuffle<(Half * n / 2 + Nth / 2 + (Nth % 2) * n)...>(a, b);
}

/// Elements 0, 2, 4, ... of p, a register of them: nothing behind the last one is read.
template <real T>
[[gnu::always_inline]] inline pack<T> every_other(const T* p) {
  constexpr std::size_t n = pack<T>::size;
  return [&]<std::size_t... Nth>(std::index_sequence<Nth...>) __attribute__((always_inline)) {
    // The second register begins one element early, with an odd one.
    return shuffle<(2 * Nth < n ? 2 * Nth : 2 * Nth + 1)...>(pack<T>::load(p), pack<T>::load(p + n - 1));
  }
  (std::make_index_sequence<n>{});
}

/// Transposes a square: row j of the result holds lane j of every row. log2(size) rounds of full-width interleaving;
/// each moves one bit of the lane number into the row number. Every index is a template argument, so that the rows stay
/// in registers.
template <std::size_t Width, real T, std::size_t... Nth>
[[gnu::always_inline]] inline auto transpose_square(const std::array<pack<T>, sizeof...(Nth)>& rows,
                                                    std::index_sequence<Nth...> all) {
  constexpr std::size_t n = sizeof...(Nth);
  const std::array<pack<T>, n> next{interleave<Nth % 2>(rows[Nth / 2], rows[Nth / 2 + n / 2], all)...};
  if constexpr (2 * Width == n)
    return next;
  else
    return transpose_square<2 * Width>(next, all);
}
template <real T>
[[gnu::always_inline]] inline auto transpose_square(const std::array<pack<T>, pack<T>::size>& rows) {
  return transpose_square<1>(rows, std::make_index_sequence<pack<T>::size>{});
}

/// to[k * to_pitch + lane] = from[k * pitch + lane] for `depth` rows of one register; lanes from `cols` on are 0.
template <real T>
inline void pack_rows(const T* from, std::size_t pitch, std::size_t depth, std::size_t cols, T* to,
                      std::size_t to_pitch) {
  using V = pack<T>;
  if (cols >= V::size)
    for (std::size_t k = 0; k < depth; ++k) V::load(from + k * pitch).store(to + k * to_pitch);
  else
    for (std::size_t k = 0; k < depth; ++k) V::load_partial(from + k * pitch, cols).store(to + k * to_pitch);
}

/// Row k, lane i of `to`, for `depth` <= one register of k, is lane k of load(i, depth); lanes from `cols` on are 0.
template <real T, class Load>
[[gnu::always_inline]] inline void pack_turned(const Load& load, std::size_t depth, std::size_t cols, T* to,
                                               std::size_t to_pitch) {
  using V = pack<T>;
  if (depth == V::size && cols >= V::size) {
    [&]<std::size_t... Nth>(std::index_sequence<Nth...>) __attribute__((always_inline)) {
      const auto square = transpose_square(std::array<V, V::size>{load(Nth, V::size)...});
      (square[Nth].store(to + Nth * to_pitch), ...);
    }
    (std::make_index_sequence<V::size>{});
    return;
  }
  std::array<V, V::size> rows;
  for (std::size_t i = 0; i < V::size; ++i) rows[i] = i < cols ? load(i, depth) : V(T(0));
  const auto square = transpose_square(rows);
  for (std::size_t i = 0; i < depth; ++i) square[i].store(to + i * to_pitch);
}

/// The first n elements of p, the other lanes 0.
template <real T>
[[gnu::always_inline]] inline pack<T> load_first(const T* p, std::size_t n) {
  return n == pack<T>::size ? pack<T>::load(p) : pack<T>::load_partial(p, n);
}

/// to[k * to_pitch + lane] = from[lane * pitch + k] for `depth` <= one register of k; lanes from `cols` on are 0.
template <real T>
inline void pack_transposed(const T* from, std::size_t pitch, std::size_t depth, std::size_t cols, T* to,
                            std::size_t to_pitch) {
  pack_turned(
      [=](std::size_t i, std::size_t n) __attribute__((always_inline)) { return load_first(from + i * pitch, n); },
      depth, cols, to, to_pitch);
}

/// Columns c .. c + n - 1 of row r of interleaved memory, c a multiple of the register's size; the other lanes 0.
template <real T>
inline pack<T> load_interleaved(const right_operand<T>& from, std::size_t r, std::size_t c, std::size_t n) {
  using V = pack<T>;
  const T* row = from.data + from.place(r, from.row_block) * from.pitch;
  const std::size_t block = from.column_block;
  if (block % V::size == 0) return load_first(row + from.place(c, block), n);
  if (block == 1 && n == V::size) return every_other<T>(row + 2 * c);
  alignas(alignment) T lanes[V::size] = {};
  for (std::size_t i = 0; i < n; ++i) lanes[i] = row[from.place(c + i, block)];
  return V::load(lanes);
}

/// pack_register_column where the memory is interleaved.
template <real T>
[[gnu::noinline]] void pack_interleaved(const right_operand<T>& from, std::size_t k, std::size_t depth,
                                        std::size_t column, std::size_t cols, T* to, std::size_t to_pitch) {
  constexpr std::size_t size = pack<T>::size;
  if (!from.transposed) {
    for (std::size_t i = 0; i < depth; ++i) load_interleaved(from, k + i, column, cols).store(to + i * to_pitch);
    return;
  }
  for (std::size_t i = 0; i < depth; i += size)
    pack_turned([&](std::size_t lane, std::size_t n) { return load_interleaved(from, column + lane, k + i, n); },
                std::min(size, depth - i), cols, to + i * to_pitch, to_pitch);
}

}  // namespace impl

/// Rows k .. k + depth - 1 and the register of columns from `column` on (those from `columns` on are 0) of a right
/// operand, into `depth` rows of one register, `to_pitch` apart. k is a multiple of the register's size.
template <real T>
inline void pack_register_column(const right_operand<T>& from, std::size_t k, std::size_t depth, std::size_t column,
                                 std::size_t columns, T* to, std::size_t to_pitch) {
  constexpr std::size_t size = pack<T>::size;
  if (column >= columns) {
    for (std::size_t i = 0; i < depth; ++i) pack<T>(T(0)).store(to + i * to_pitch);
    return;
  }
  const std::size_t cols = std::min(size, columns - column);
  if (from.interleaved()) return impl::pack_interleaved(from, k, depth, column, cols, to, to_pitch);
  if (!from.transposed) {
    const auto block = from.at(k, column);
    impl::pack_rows(block.data, block.pitch, depth, cols, to, to_pitch);
    return;
  }
  for (std::size_t i = 0; i < depth; i += size) {
    const auto block = from.at(k + i, column);
    if (from.run == 0)  // the register column that comes next
      for (std::size_t row = 0; row < size; ++row) prefetch<access::read>(block.data + (size + row) * block.pitch);
    impl::pack_transposed(block.data, block.pitch, std::min(size, depth - i), cols, to + i * to_pitch, to_pitch);
  }
}

/// Rows first .. last - 1 of a row-major matrix into the same rows of panels, zero padding included.
template <class From, real T, std::size_t Run>
inline void copy_to_panels(const From& from, panel_view<T, Run> to, std::size_t first, std::size_t last) {
  using V = pack<T>;
  const std::size_t cols = to.cols();
  if (cols == 0) return;  // `from` may be null
  for (std::size_t r = first; r < last; ++r) {
    const T* row = from.data() + r * from.pitch();
    for (std::size_t c = 0; c < cols; c += Run)
      for (std::size_t v = 0; v < Run; v += V::size) {
        const std::size_t n = c + v < cols ? cols - c - v : 0;
        (n >= V::size ? V::load(row + c + v) : V::load_partial(n == 0 ? row : row + c + v, n)).store(to.at(r, c) + v);
      }
  }
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// Which micro-kernel computes a tile, chosen at run time. A product of few groups refers only to the kernels it can
// need, so that the others are not even compiled.

#include <algorithm>
#include <cstddef>

#include <swiglu/gemm/blocking.hpp>
#include <swiglu/gemm/micro_kernel.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

template <real T>
using kernel_function = void (*)(const kernel_operands<T>&);

/// Chooses by rows (one of tile_sizes or 1), vectors and whether the left operand is transposed.
template <real T>
using kernel_selector = kernel_function<T> (*)(std::size_t rows, std::size_t vectors, bool transposed);

namespace impl {

template <real T, std::size_t Vectors, bool Transposed>
kernel_function<T> kernel_of_rows(std::size_t rows) {
  // The rows of a transposed left operand are columns of one strip.
  constexpr std::size_t most = Transposed ? std::min(tile_rows(Vectors), strip_columns<T>) : tile_rows(Vectors);
  if constexpr (most >= 12)
    if (rows == 12) return micro_kernel<T, 12, Vectors, Transposed>::run;
  if constexpr (most >= 8)
    if (rows == 8) return micro_kernel<T, 8, Vectors, Transposed>::run;
  if constexpr (most >= 6)
    if (rows == 6) return micro_kernel<T, 6, Vectors, Transposed>::run;
  if constexpr (most >= 4)
    if (rows == 4) return micro_kernel<T, 4, Vectors, Transposed>::run;
  if constexpr (most >= 2)
    if (rows == 2) return micro_kernel<T, 2, Vectors, Transposed>::run;
  return micro_kernel<T, 1, Vectors, Transposed>::run;
}

template <real T, std::size_t Vectors>
kernel_function<T> kernel_of(std::size_t rows, bool transposed) {
  return transposed ? kernel_of_rows<T, Vectors, true>(rows) : kernel_of_rows<T, Vectors, false>(rows);
}

}  // namespace impl

/// The selector for products of `Groups` groups: one group fills two registers of a row, two or more one each.
template <real T, std::size_t Groups>
kernel_function<T> select_kernel(std::size_t rows, std::size_t vectors, bool transposed) {
  if constexpr (Groups > 1)
    if (vectors == 1) return impl::kernel_of<T, 1>(rows, transposed);
  if constexpr (Groups > 2)
    if (vectors == 3) return impl::kernel_of<T, 3>(rows, transposed);
  if constexpr (Groups > 3)
    if (vectors == 4) return impl::kernel_of<T, 4>(rows, transposed);
  return impl::kernel_of<T, 2>(rows, transposed);
}

/// The rows of the next tile: the largest kernel that fits into `left` rows, of those up to `most`.
constexpr std::size_t next_tile(std::size_t most, std::size_t left) {
  for (const std::size_t rows : tile_sizes)
    if (rows <= most && rows <= left && (rows != 6 || most == 6)) return rows;
  return 1;
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

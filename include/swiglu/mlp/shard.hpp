// SPDX-License-Identifier: MIT
#pragma once

// Cutting global tensors into a rank's pieces and putting them back: gate and up by outputs and down by inputs over the
// tensor axis, whatever their layout, activations by batch over the data axis. No communication: each function knows
// one rank.

#include <algorithm>
#include <cstddef>

#include <swiglu/mlp/params.hpp>

namespace swiglu {

namespace shard_detail {

template <class From, class To>
void copy_rows(const From& from, const To& to) {
  check_extent("shard: rows", to.rows(), from.rows());
  check_extent("shard: columns", to.cols(), from.cols());
  for (std::size_t r = 0; r < to.rows(); ++r)
    std::copy_n(from.data() + r * from.pitch(), to.cols(), to.data() + r * to.pitch());
}

/// A part of an interleaved matrix.
template <class M>
struct interleaved_part {
  M whole;
  std::size_t first_row, part_rows, first_col, part_cols;

  std::size_t rows() const { return part_rows; }
  std::size_t cols() const { return part_cols; }
  auto& operator()(std::size_t r, std::size_t c) const { return whole(first_row + r, first_col + c); }
};
/// The part [rows, cols] of a matrix that starts at (row, col). Throws shape_error past the end.
template <class M>
auto part_of(const M& m, std::size_t row, std::size_t rows, std::size_t col, std::size_t cols) {
  if constexpr (detail::is_interleaved<M>) {
    if (row > m.rows() || rows > m.rows() - row) throw shape_error("shard: end of the rows", m.rows(), row + rows);
    if (col > m.cols() || cols > m.cols() - col) throw shape_error("shard: end of the columns", m.cols(), col + cols);
    return interleaved_part<M>{m, row, rows, col, cols};
  } else {
    return m.row_block(row, rows).column_block(col, cols);
  }
}
template <class From, class To>
void copy_matrix(const From& from, const To& to) {
  if constexpr (requires { from.pitch(), to.row_block(0, 0); }) {
    copy_rows(from, to);
  } else {
    for (std::size_t r = 0; r < to.rows(); ++r)
      for (std::size_t c = 0; c < to.cols(); ++c) to(r, c) = from(r, c);
  }
}

/// f(part of the global matrix, the rank's own matrix) for gate, up and down, after all three have been checked.
template <class Global, class Local, class F>
void each_part(Global& global, std::size_t rank, Local& local, const F& f) {
  constexpr weight_layout layout = Local::layout;
  const auto part = [&](const auto& whole, const auto& own, bool by_rows) {
    const std::size_t rows = own.rows(), cols = own.cols(), extent = by_rows ? rows : cols;
    check_extent("shard: the extent that is not cut", by_rows ? cols : rows, by_rows ? whole.cols() : whole.rows());
    const std::size_t ranks = (by_rows ? whole.rows() : whole.cols()) / extent;
    if (rank >= ranks) throw shape_error("shard: ranks that the extent has room for", rank + 1, ranks);
    return part_of(whole, by_rows ? rank * rows : 0, rows, by_rows ? 0 : rank * cols, cols);
  };
  const auto own_gate = gate_of<layout>(local), own_up = up_of<layout>(local);
  const auto own_down = down_of<layout>(local);
  const auto gate = part(gate_of<layout>(global), own_gate, layout.is_out_in());
  const auto up = part(up_of<layout>(global), own_up, layout.is_out_in());
  const auto down = part(down_of<layout>(global), own_down, !layout.is_out_in());
  f(gate, own_gate), f(up, own_up), f(down, own_down);
}

/// The part of n that each of `size` ranks gets; throws shape_error if it does not divide.
inline std::size_t equal_part(std::string_view where, std::string_view what, std::size_t n, std::size_t size) {
  if (size == 0 || n % size != 0)
    throw shape_error(std::string(where) + ": " + std::string(what) + " divisible by " + std::to_string(size),
                      round_up(n, std::max<std::size_t>(size, 1)), n);
  return n / size;
}

}  // namespace shard_detail

/// Copies the outputs of gate and up and the inputs of down that belong to `tensor_rank` out of the global weights,
/// which have the layout of the local ones. `local` says how many ranks there are: global intermediate = ranks * local
/// intermediate. Throws shape_error.
template <class Global, class T, std::size_t Hidden, std::size_t Intermediate, weight_layout L>
void shard_weights(const Global& global, std::size_t tensor_rank, weights<T, Hidden, Intermediate, L>& local) {
  shard_detail::each_part(global, tensor_rank, local,
                          [](const auto& part, const auto& own) { shard_detail::copy_matrix(part, own); });
}

/// The inverse: writes a rank's weights (or gradients) into their place in the global ones.
template <class T, std::size_t Hidden, std::size_t Intermediate, weight_layout L, class Global>
void unshard_weights(const weights<T, Hidden, Intermediate, L>& local, std::size_t tensor_rank, Global& global) {
  shard_detail::each_part(global, tensor_rank, local,
                          [](const auto& part, const auto& own) { shard_detail::copy_matrix(own, part); });
}

/// Batch entries of `data_rank` of a global [sequence, batch, hidden] into a rank's [sequence * batch / ranks, hidden]
/// (row = sequence * local batch + local entry). Throws shape_error if the ranks do not divide the batch.
template <class T, std::size_t... E, class Local>
  requires(sizeof...(E) == 3)
void shard_batch(view<T, E...> global, std::size_t data_rank, std::size_t ranks, Local&& local) {
  const std::size_t batch = global.extent(1), part = shard_detail::equal_part("shard_batch", "batch", batch, ranks);
  for (std::size_t s = 0; s < global.extent(0); ++s)
    shard_detail::copy_rows(global.row_block(s * batch + data_rank * part, part), local.row_block(s * part, part));
}

/// The inverse.
template <class Local, class T, std::size_t... E>
  requires(sizeof...(E) == 3)
void unshard_batch(const Local& local, std::size_t data_rank, std::size_t ranks, view<T, E...> global) {
  const std::size_t batch = global.extent(1), part = shard_detail::equal_part("unshard_batch", "batch", batch, ranks);
  for (std::size_t s = 0; s < global.extent(0); ++s)
    shard_detail::copy_rows(local.row_block(s * part, part), global.row_block(s * batch + data_rank * part, part));
}

}  // namespace swiglu

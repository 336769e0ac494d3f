// SPDX-License-Identifier: MIT
#pragma once

// Cutting global tensors into a rank's pieces and putting them back: gate and up by columns and down by rows over the
// tensor axis, activations by batch over the data axis. No communication: each function knows one rank.

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

/// The part of n that each of `size` ranks gets; throws shape_error if it does not divide.
inline std::size_t equal_part(std::string_view where, std::string_view what, std::size_t n, std::size_t size) {
  if (size == 0 || n % size != 0)
    throw shape_error(std::string(where) + ": " + std::string(what) + " divisible by " + std::to_string(size),
                      round_up(n, std::max<std::size_t>(size, 1)), n);
  return n / size;
}

}  // namespace shard_detail

/// Copies the columns of gate and up and the rows of down that belong to `tensor_rank` out of the global weights.
/// `local` says how many ranks there are: global intermediate = ranks * local intermediate.
template <class Global, class T, std::size_t Hidden, std::size_t Intermediate>
void shard_weights(const Global& global, std::size_t tensor_rank, weights<T, Hidden, Intermediate>& local) {
  shard_detail::copy_rows(global.gate.view().column_block(tensor_rank * Intermediate, Intermediate), local.gate.view());
  shard_detail::copy_rows(global.up.view().column_block(tensor_rank * Intermediate, Intermediate), local.up.view());
  shard_detail::copy_rows(global.down.view().row_block(tensor_rank * Intermediate, Intermediate), local.down.view());
}

/// The inverse: writes a rank's weights (or gradients) into their place in the global ones.
template <class T, std::size_t Hidden, std::size_t Intermediate, class Global>
void unshard_weights(const weights<T, Hidden, Intermediate>& local, std::size_t tensor_rank, Global& global) {
  shard_detail::copy_rows(local.gate.view(), global.gate.view().column_block(tensor_rank * Intermediate, Intermediate));
  shard_detail::copy_rows(local.up.view(), global.up.view().column_block(tensor_rank * Intermediate, Intermediate));
  shard_detail::copy_rows(local.down.view(), global.down.view().row_block(tensor_rank * Intermediate, Intermediate));
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

// SPDX-License-Identifier: MIT
#pragma once

// A tensor on its way from a kernel, over an axis, to the caller. Where the caller's memory cannot take part in a
// collective itself (rows with gaps, a sum to be added to what is there, a slice of the sum) the kernel writes to
// memory of the workspace instead, from which the result is delivered afterwards. And the way in, where the caller has
// only its share of an activation.

#include <cstddef>
#include <span>

#include <swiglu/comm/collectives.hpp>
#include <swiglu/expr/evaluate.hpp>
#include <swiglu/mlp/shard.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

namespace impl {
/// Whether there is something between the rows of a matrix, so that it is not one span.
template <class M>
bool has_gaps(const M& m) {
  return m.pitch() != m.cols() && m.rows() > 1;
}
}  // namespace impl

/// One tensor [rows, cols] that is summed over an axis of `ranks` ranks as `how` says.
template <real T>
class staged_tensor {
 public:
  using matrix = view<T, dynamic, dynamic>;

  /// `to`: the caller's memory, all rows of the tensor, or a rank's share of them with reduce_scatter over several
  /// ranks. `accumulate`: the result is added to it.
  staged_tensor(matrix to, reduction how, std::size_t ranks, bool accumulate)
      : to_(to),
        scatter_(scatters(how) && ranks > 1),
        accumulate_(accumulate),
        reduced_(how != reduction::unreduced && ranks > 1),
        rows_(scatter_ ? to.rows() * ranks : to.rows()) {
    staged_ = reduced_ && (impl::has_gaps(to) || accumulate || scatter_);
  }

  /// Elements of staging memory that it needs.
  std::size_t staging() const { return staged_ ? (rows_ + (scatter_ ? to_.rows() : 0)) * to_.cols() : 0; }
  void use_staging(T* memory) { memory_ = memory; }

  /// The caller's memory.
  const matrix& to() const { return to_; }
  bool reduced() const { return reduced_; }
  bool scattered() const { return scatter_; }
  bool staged() const { return staged_; }

  /// Where the kernel writes.
  matrix target() const { return staged_ ? matrix(memory_, extents<dynamic, dynamic>{rows_, to_.cols()}) : to_; }
  /// What the collective sums.
  std::span<T> full() const { return {staged_ ? memory_ : to_.data(), rows_ * to_.cols()}; }
  /// With reduce_scatter, where this rank's rows arrive.
  std::span<T> part() const { return {memory_ + rows_ * to_.cols(), to_.rows() * to_.cols()}; }

  /// After the collective: hands the result to the caller.
  template <class On>
  void deliver(On on) const {
    if (!staged_) return;
    const view<const T, dynamic, dynamic> result(scatter_ ? part().data() : memory_,
                                                 extents<dynamic, dynamic>{to_.rows(), to_.cols()});
    if (accumulate_)
      evaluate(on, swiglu::accumulate(noalias(to_)) <<= result);
    else
      evaluate(on, noalias(to_) <<= result);
  }

 private:
  matrix to_;
  bool scatter_, accumulate_, reduced_, staged_ = false;
  std::size_t rows_;
  T* memory_ = nullptr;
};

/// x or grad_out [rows, cols]: as the caller has it or, with reduction::sequence_parallel, the shares of all ranks.
template <real T>
class gathered_tensor {
 public:
  using matrix = view<const T, dynamic, dynamic>;

  gathered_tensor(matrix from, reduction how, std::size_t ranks)
      : from_(from),
        gather_(how == reduction::sequence_parallel && ranks > 1),
        rows_(from.rows() * (gather_ ? ranks : 1)) {}

  std::size_t staging() const {
    return gather_ ? (rows_ + (impl::has_gaps(from_) ? from_.rows() : 0)) * from_.cols() : 0;
  }
  void use_staging(T* memory) { memory_ = memory; }
  /// The caller's memory.
  const matrix& from() const { return from_; }

  /// All rows. Collective.
  template <class C>
  matrix whole(C& axis) const {
    if (!gather_) return from_;
    const std::size_t own = from_.rows() * from_.cols(), all = rows_ * from_.cols();
    const T* share = from_.data();
    if (impl::has_gaps(from_)) {
      const view<T, dynamic, dynamic> copy(memory_ + all, extents<dynamic, dynamic>{from_.rows(), from_.cols()});
      shard_detail::copy_rows(from_, copy);
      share = copy.data();
    }
    all_gather<T>(axis, std::span<const T>(share, own), std::span<T>(memory_, all));
    return matrix(memory_, extents<dynamic, dynamic>{rows_, from_.cols()});
  }

 private:
  matrix from_;
  bool gather_;
  std::size_t rows_;
  T* memory_ = nullptr;
};

/// Gives each of `tensors` its part of a workspace's staging memory.
template <class Workspace, class... Tensor>
void give_staging(Workspace& ws, Tensor&... tensors) {
  auto* memory = ws.staging((tensors.staging() + ...));
  ((tensors.use_staging(memory), memory += tensors.staging()), ...);
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// A batch on a mesh of threads: what each rank holds, and what its results should be. Ranks only compute and collect;
// the checks are the main thread's.

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include <swiglu/comm/launch.hpp>

#include "mlp/step.hpp"

namespace test {

/// A global batch [3, 8, 12] for a layer 12 x 20, in which every part is odd somewhere.
template <class S, std::size_t Data, std::size_t Tensor>
struct meshed {
  using schedule = S;
  static constexpr std::size_t sequence = 3, entries = 8, hidden = 12, intermediate = 20;
  static constexpr std::size_t data_ranks = Data, tensor_ranks = Tensor, ranks = Data * Tensor;
  static constexpr std::size_t tokens = sequence * entries / Data;
  using alone = typename S::template layer<swiglu::dims{.hidden = hidden, .intermediate = intermediate}>;
  using layer = typename S::template layer<swiglu::dims{
      .hidden = hidden, .intermediate = intermediate, .tensor_parallel = Tensor}>;
  using global_view = swiglu::view<const float, sequence, entries, hidden>;
  using global_result = swiglu::view<float, sequence, entries, hidden>;

  const batch_of<alone> global{sequence * entries};

  /// What rank (d, t) holds.
  batch_of<layer> part(std::size_t d, std::size_t t) const {
    batch_of<layer> b(tokens);
    swiglu::shard_batch(global_view(global.x.data()), d, Data, b.x.view());
    swiglu::shard_batch(global_view(global.grad_out.data()), d, Data, b.grad_out.view());
    swiglu::shard_weights(global.w, t, b.w);
    return b;
  }

  /// One of T for every rank.
  template <class T>
  class per_rank {
   public:
    template <class... Args>
    explicit per_rank(const Args&... args) : values_(ranks, T(args...)) {}
    T& at(std::size_t d, std::size_t t) { return values_[d * Tensor + t]; }

   private:
    std::vector<T> values_;
  };

  /// f(axes, d, t) on every rank; a rank that waits for a minute throws.
  template <class F>
  static void each_rank(F f) {
    swiglu::run_ranks(static_cast<int>(Data), static_cast<int>(Tensor),
                      [&](auto& axes) {
                        f(axes, static_cast<std::size_t>(axes.data.rank()),
                          static_cast<std::size_t>(axes.tensor.rank()));
                      },
                      {.timeout = std::chrono::minutes(1)});
  }

  /// What each rank computes by itself: its terms of the sums.
  per_rank<results_of<layer>> terms() const {
    per_rank<results_of<layer>> r(tokens);
    for (std::size_t d = 0; d < Data; ++d)
      for (std::size_t t = 0; t < Tensor; ++t) r.at(d, t) = step<layer>(part(d, t));
    return r;
  }
};

/// a += b, element by element.
template <class X>
void add_to(X& a, const X& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a.data()[i] += b.data()[i];
}

/// What each rank holds when out and grad_x are summed over the tensor axis and the weight gradients over the data
/// axis, in ascending rank, as the ranks of comm/threads.hpp do.
template <class Mesh, class PerRank>
PerRank sums(PerRank terms) {
  PerRank r = terms;
  for (std::size_t d = 0; d < Mesh::data_ranks; ++d)
    for (std::size_t t = 0; t < Mesh::tensor_ranks; ++t) {
      auto& mine = r.at(d, t);
      mine.out = terms.at(d, 0).out, mine.grad_x = terms.at(d, 0).grad_x, mine.grad = terms.at(0, t).grad;
      for (std::size_t other = 1; other < Mesh::tensor_ranks; ++other)
        add_to(mine.out, terms.at(d, other).out), add_to(mine.grad_x, terms.at(d, other).grad_x);
      for (std::size_t other = 1; other < Mesh::data_ranks; ++other) {
        auto& g = terms.at(other, t).grad;
        add_to(mine.grad.gate, g.gate), add_to(mine.grad.up, g.up), add_to(mine.grad.down, g.down);
      }
    }
  return r;
}

}  // namespace test

// SPDX-License-Identifier: MIT

// What of a sum over the tensor axis hides behind the weight gradients, with a simulated link (comm/delayed.hpp), since
// the ranks of one machine share what they compute and communicate with. One rank of two is run; the other is supposed
// to hold the same. The link is such that the transfer of grad_x takes a half, all or twice of what the weight
// gradients take. Counters:
//
//     of_model    the time of a backward pass as a share of: contractions 3 and 4, then the longer of transfer and
//                 weight gradients
//     of_sum      the same as a share of compute and transfer one after the other
//
// Names: overlap/variant/f32/T:../H:../I:../threads:1; I is the rank's half.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>

#include <swiglu/comm/delayed.hpp>
#include <swiglu/mlp.hpp>

#include "layer_case.hpp"
#include "stages.hpp"

namespace {

constexpr bench::shape of_rank{512, 1024, 1408};

/// A rank whose peer holds the same: the sum is known without it.
struct mirrored {
  int rank() const { return 0; }
  int size() const { return 2; }
  void all_reduce(std::span<float> buffer) const {
    for (float& x : buffer) x *= 2;
  }
  void abort(const std::exception_ptr&) noexcept {}
};

template <swiglu::schedule Schedule>
class problem {
  using layer = swiglu::mlp<
      float, swiglu::dims{.hidden = of_rank.hidden, .intermediate = 2 * of_rank.intermediate, .tensor_parallel = 2},
      Schedule>;
  using tensor = swiglu::tensor<float, swiglu::dynamic, of_rank.hidden>;

 public:
  problem() {
    bench::fill_inputs(x_, grad_out_, w_.gate, w_.up, w_.down);
    layer::template forward<swiglu::reduction::unreduced>(x_, w_, s_, ws_, out_, axes(alone_));
  }
  template <class Axis>
  void backward(Axis& axis) {
    layer::backward(grad_out_, x_, w_, s_, ws_, grad_x_, g_, axes(axis));
  }
  mirrored& axis() { return alone_; }
  std::size_t bytes_of_grad_x() const { return grad_x_.size() * sizeof(float); }

 private:
  template <class Axis>
  swiglu::mesh<swiglu::self, Axis> axes(Axis& axis) {
    return {data_, axis};
  }
  tensor x_{of_rank.tokens}, grad_out_{of_rank.tokens}, out_{of_rank.tokens}, grad_x_{of_rank.tokens};
  typename layer::weights w_;
  typename layer::gradients g_;
  typename layer::saved s_{of_rank.tokens};
  typename layer::workspace ws_{of_rank.tokens};
  swiglu::self data_;
  mirrored alone_;
};

template <swiglu::schedule Schedule>
void add_overlap(const std::string& variant, double transfer_of_half) {
  bench::register_run(bench::name_of("overlap", variant, of_rank, 1), [=](benchmark::State& state) {
    const auto p = std::make_unique<problem<Schedule>>();
    const auto timed = [&](auto& axis) {
      const double begin = bench::seconds();
      p->backward(axis);
      return bench::seconds() - begin;
    };
    // The compute of a pass, next to every pass that is measured: the clock of the core changes.
    double compute = timed(p->axis()), of_model = 0, of_sum = 0;
    for (auto _ : state) {
      compute = timed(p->axis());
      const double half = compute / 2, transfer = transfer_of_half * half;  // contractions 5 and 6 are half of the work
      swiglu::delayed<mirrored> link(
          p->axis(), {std::chrono::microseconds(20), static_cast<double>(p->bytes_of_grad_x()) / transfer});
      const double time = timed(link), after = timed(p->axis()), both = (compute + after) / 2;
      state.SetIterationTime(time);
      of_model += time / (both / 2 + std::max(both / 2, transfer));
      of_sum += time / (both + transfer);
      compute = after;
    }
    state.counters["of_model"] = of_model / static_cast<double>(state.iterations());
    state.counters["of_sum"] = of_sum / static_cast<double>(state.iterations());
  });
}

}  // namespace

void bench::add_overlaps() {
  constexpr swiglu::schedule in_turn{.overlap = false};
  for (const auto& [name, transfer] : {std::pair<std::string, double>{"half", 0.5}, {"equal", 1.0}, {"double", 2.0}}) {
    add_overlap<swiglu::schedule::fused>("overlapped_" + name, transfer);
    add_overlap<in_turn>("in_turn_" + name, transfer);
  }
}

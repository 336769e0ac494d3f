// SPDX-License-Identifier: MIT

// The layer's passes under each schedule.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <swiglu/mlp.hpp>
#if defined(_OPENMP)
#include <swiglu/exec/openmp.hpp>
#endif

#include "layer_case.hpp"
#include "stages.hpp"

namespace {

using swiglu::dims;
using swiglu::schedule;
using swiglu::tensor;

template <dims Shape, schedule Schedule, class Executor>
struct problem {
  using layer = swiglu::mlp<float, Shape, Schedule, Executor>;
  tensor<float, Shape.tokens, Shape.hidden> x, grad_out, out, grad_x;
  typename layer::weights w;
  typename layer::gradients g;
  typename layer::saved s;
  typename layer::workspace ws;

  problem(std::size_t tokens, Executor threads) : s(tokens), ws(tokens, threads) {
    if constexpr (Shape.tokens == swiglu::dynamic)
      for (auto* t : {&x, &grad_out, &out, &grad_x}) *t = tensor<float, swiglu::dynamic, Shape.hidden>(tokens);
    if constexpr (Shape.layout.is_packed())
      bench::fill_inputs(x, grad_out, w.gate_up, w.gate_up, w.down);
    else
      bench::fill_inputs(x, grad_out, w.gate, w.up, w.down);
  }
  void forward() { layer::forward(x, w, s, ws, out); }
  void backward() { layer::backward(grad_out, x, w, s, ws, grad_x, g); }
  auto weights() const {
    if constexpr (Shape.layout.is_packed())
      return std::array<std::span<const float>, 2>{w.gate_up.span(), w.down.span()};
    else
      return std::array<std::span<const float>, 3>{w.gate.span(), w.up.span(), w.down.span()};
  }
  std::size_t saved_bytes() const { return s.bytes(); }
  std::size_t bytes() const { return ws.bytes(); }
};

template <bench::shape S, schedule Schedule, swiglu::weight_layout Layout = swiglu::in_out, class Executor>
void add(const char* variant, Executor threads) {
  // Small shapes are known at compile time, tokens and all; large ones bring their tokens at run time.
  constexpr bool fixed = swiglu::is_small<float>(S.tokens, S.hidden, S.intermediate);
  constexpr dims shape{.hidden = S.hidden,
                       .intermediate = S.intermediate,
                       .tokens = fixed ? S.tokens : swiglu::dynamic,
                       .layout = Layout};
  using on = std::conditional_t<fixed, Executor, bench::paused<Executor>>;
  bench::add(variant, S, threads.threads(),
             [=] { return std::make_unique<problem<shape, Schedule, on>>(S.tokens, on(threads)); });
}

template <std::size_t... Nth>
void add_all(std::index_sequence<Nth...>) {
  (add<bench::shapes[Nth], schedule::fused>("fused", swiglu::serial{}), ...);
  (add<bench::shapes[Nth], schedule::fused_recompute_h>("fused_recompute_h", swiglu::serial{}), ...);
  (add<bench::shapes[Nth], schedule::xla>("xla", swiglu::serial{}), ...);
}

/// The other schedules, each one choice away from `fused`.
template <bench::shape S>
void add_variants() {
  using kernels = schedule::kernels;
  const swiglu::serial here;
  add<S, schedule::fused_checkpoint>("fused_checkpoint", here);
  add<S, schedule{.save_sigmoid = true}>("fused_save_sigmoid", here);
  add<S, schedule{.transposes = schedule::transposition::materialised}>("fused_materialised", here);
  add<S, schedule{.grad_x = schedule::branches::add_then_reduce}>("fused_two_products", here);
  add<S, schedule{.cut = kernels::elementwise}>("elementwise", here);
  add<S, schedule{.cut = kernels::unfused}>("unfused", here);
}

/// `fused` with the weights in other layouts than [in, out].
template <bench::shape S>
void add_layouts() {
  using swiglu::in_out, swiglu::out_in;
  const swiglu::serial here;
  add<S, schedule::fused, out_in>("fused_out_in", here);
  add<S, schedule::fused, in_out.gate_up()>("fused_gate_up", here);
  add<S, schedule::fused, out_in.gate_up()>("fused_out_in_gate_up", here);
  add<S, schedule::fused, in_out.interleaved(1)>("fused_interleaved", here);
  add<S, schedule::fused, out_in.interleaved(1)>("fused_out_in_interleaved", here);
}

#if defined(_OPENMP)
template <std::size_t... Nth>
void add_all_of_two_threads(std::index_sequence<Nth...>) {
  (add<bench::shapes_of_two_threads[Nth], schedule::fused>("fused", swiglu::openmp{2}), ...);
}
#endif

}  // namespace

void bench::add_layers() {
  add_all(std::make_index_sequence<std::size(shapes)>{});
  add_variants<shape{64, 64, 192}>();
  add_variants<shape{512, 1024, 2816}>();
  add_layouts<shape{1, 1024, 2816}>();
  add_layouts<shape{512, 1024, 2816}>();
#if defined(_OPENMP)
  add_all_of_two_threads(std::make_index_sequence<std::size(shapes_of_two_threads)>{});
#endif
}

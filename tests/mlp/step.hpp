// SPDX-License-Identifier: MIT
#pragma once

// One training step of a layer in fresh memory, and the comparisons of its five results.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

#include <swiglu/mlp.hpp>

#include "mlp/reference.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"

namespace test {

/// Lists of numbers of tokens, ranks, ... to loop over.
using sizes = std::initializer_list<std::size_t>;

/// A schedule as a type, for TEST_CASE_TEMPLATE.
template <swiglu::schedule S>
struct scheduled {
  static constexpr swiglu::schedule value = S;
  static constexpr bool per_operation = S.cut == swiglu::schedule::kernels::unfused;
  template <swiglu::dims D, class T = float, swiglu::executor X = swiglu::serial>
  using layer = swiglu::mlp<T, D, S, X>;
};
using fused = scheduled<swiglu::schedule::fused>;
using recompute = scheduled<swiglu::schedule::fused_recompute_h>;
using xla = scheduled<swiglu::schedule::xla>;

template <class Layer>
inline constexpr std::size_t hidden_of = Layer::shape.hidden;
template <class Layer>
inline constexpr std::size_t intermediate_of = Layer::shape.local_intermediate();
template <class Layer>
using value_of = typename decltype(Layer::weights::gate)::value_type;

/// The inputs of a step: random, with activations and gradients around 1 whatever the shape.
template <class T, std::size_t Hidden, std::size_t Intermediate>
struct batch {
  swiglu::tensor<T, swiglu::dynamic, Hidden> x, grad_out;
  swiglu::weights<T, Hidden, Intermediate> w;

  explicit batch(std::size_t tokens, std::uint64_t seed = 1) : x(tokens), grad_out(tokens) {
    const double wide = std::sqrt(3.0), gate = 1.5 * std::sqrt(3.0 / Hidden), down = std::sqrt(3.0 / Intermediate);
    fill(x, seed, -wide, wide), fill(grad_out, seed + 1, -wide, wide);
    fill(w.gate, seed + 2, -gate, gate), fill(w.up, seed + 3, -gate, gate), fill(w.down, seed + 4, -down, down);
  }
  std::size_t tokens() const { return x.rows(); }
  reference exact() const { return reference_of<T>(x, w, grad_out); }
};
template <class Layer>
using batch_of = batch<value_of<Layer>, hidden_of<Layer>, intermediate_of<Layer>>;

/// The outputs of a step; NaN at first, so that an element nobody wrote shows.
template <class T, std::size_t Hidden, std::size_t Intermediate>
struct results {
  swiglu::tensor<T, swiglu::dynamic, Hidden> out, grad_x;
  swiglu::weights<T, Hidden, Intermediate> grad;

  explicit results(std::size_t tokens, T value = std::numeric_limits<T>::quiet_NaN()) : out(tokens), grad_x(tokens) {
    set(value);
  }
  void set(T value) {
    each([&](const char*, auto& tensor) { fill_with(tensor, [&] { return value; }); });
  }
  /// f(name, tensor) for each.
  template <class F>
  void each(F f) {
    f("out", out), f("grad_x", grad_x), f("grad_gate", grad.gate), f("grad_up", grad.up), f("grad_down", grad.down);
  }
};
template <class Layer>
using results_of = results<value_of<Layer>, hidden_of<Layer>, intermediate_of<Layer>>;

/// f(name, a's tensor, b's tensor) for each of the five; the first that is not equal, by name.
template <class A, class B, class F>
comparison each_result(const A& a, const B& b, F f) {
  comparison all;
  const auto one = [&](const char* name, const auto& x, const auto& y) {
    if (!all) return;
    all = f(x, y);
    if (!all) all.text = std::string(name) + ": " + all.text;
  };
  one("out", a.out, b.out), one("grad_x", a.grad_x, b.grad_x);
  one("grad_gate", a.grad.gate, b.grad.gate), one("grad_up", a.grad.up, b.grad.up);
  one("grad_down", a.grad.down, b.grad.down);
  return all;
}

template <class T, std::size_t H, std::size_t I>
comparison same_bits(const results<T, H, I>& a, const results<T, H, I>& b) {
  return each_result(a, b, [](const auto& x, const auto& y) { return same_bits(x, y); });
}

/// The five results of a reference under the names that `results` has.
struct expected_results {
  struct gradients {
    const estimate &gate, &up, &down;
  };
  const estimate &out, &grad_x;
  gradients grad;

  explicit expected_results(const reference& r)
      : out(r.out), grad_x(r.grad_x), grad{r.grad_gate, r.grad_up, r.grad_down} {}
};
/// Whether all elements are within the reference's bounds.
template <class Results>
comparison agrees(const Results& actual, const reference& expected) {
  return each_result(actual, expected_results(expected),
                     [](const auto& x, const estimate& e) { return near(x, e.value, e.error); });
}

/// Forward and backward into `to`, which may be anything with the members of `results`.
template <class Layer, class Batch, class Results>
void step_into(const Batch& b, typename Layer::saved& s, typename Layer::workspace& ws, Results& to) {
  Layer::forward(b.x, b.w, s, ws, to.out);
  Layer::backward(b.grad_out, b.x, b.w, s, ws, to.grad_x, to.grad);
}
/// A step with memory of its own.
template <class Layer, class Batch>
results_of<Layer> step(const Batch& b) {
  const std::size_t tokens = b.x.rows();
  results_of<Layer> to(tokens);
  typename Layer::saved s(tokens);
  typename Layer::workspace ws(tokens);
  step_into<Layer>(b, s, ws, to);
  return to;
}

/// What saved holds, as matrices (of a small layer: what it keeps instead of h1 and h3).
template <class Saved>
struct kept {
  matrix h1, h3, h;

  explicit kept(const Saved& s) {
    if constexpr (requires { s.slope; })
      h1 = to_matrix(s.silu.view()), h3 = to_matrix(s.slope.view()), h = to_matrix(s.h.view());
    else
      h1 = to_matrix(s.h1()), h3 = to_matrix(s.h3()), h = to_matrix(s.h());
  }
  friend comparison same_bits(const kept& a, const kept& b) {
    for (const auto m : {&kept::h1, &kept::h3, &kept::h})
      if (const comparison c = same_bits(a.*m, b.*m); !c) return c;
    return {};
  }
};

}  // namespace test

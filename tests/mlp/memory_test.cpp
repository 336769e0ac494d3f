// SPDX-License-Identifier: MIT

// What the layer reads and writes: all of its operands, in whatever memory they lie, and nothing else.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "mlp/step.hpp"
#include "support/build.hpp"
#include "support/guarded.hpp"

namespace {

using swiglu::accumulate;
using swiglu::dims;
using swiglu::dynamic;
using swiglu::extents;
using swiglu::overwrite;
using swiglu::view;
using test::comparison;
using test::fused;
using test::guarded;
using test::recompute;
using test::same_bits;
using test::tally;
using test::xla;

using float_view = view<float, dynamic, dynamic>;

template <class From>
void copy(const From& from, float_view to) {
  for (std::size_t r = 0; r < to.rows(); ++r)
    for (std::size_t c = 0; c < to.cols(); ++c) to(r, c) = from(r, c);
}

/// All operands of a step, by views.
struct operands {
  struct parameters {
    float_view gate, up, down;
  };
  float_view x, grad_out, out, grad_x;
  parameters w, grad;
};

/// The step on copies of a batch in that memory; then whether all outputs have the bits expected, and all inputs
/// theirs.
template <class Layer, class Batch>
comparison step_on(operands o, const Batch& b, const test::results_of<Layer>& expected) {
  constexpr std::size_t hidden = test::hidden_of<Layer>, intermediate = test::intermediate_of<Layer>;
  copy(b.x, o.x), copy(b.grad_out, o.grad_out);
  copy(b.w.gate, o.w.gate), copy(b.w.up, o.w.up), copy(b.w.down, o.w.down);
  const view<const float, dynamic, hidden> x = o.x;
  const swiglu::weights_view<const float, hidden, intermediate> w{o.w.gate, o.w.up, o.w.down};
  typename Layer::saved s(o.x.rows());
  typename Layer::workspace ws(o.x.rows());
  Layer::forward(x, w, s, ws, o.out);
  Layer::backward(o.grad_out, x, w, s, ws, o.grad_x, o.grad);

  const auto inputs = {same_bits(o.x, b.x), same_bits(o.grad_out, b.grad_out), same_bits(o.w.gate, b.w.gate),
                       same_bits(o.w.up, b.w.up), same_bits(o.w.down, b.w.down)};
  for (const comparison& c : inputs)
    if (!c) return {false, "an input: " + c.text};
  return each_result(o, expected, [](const auto& x1, const auto& y) { return same_bits(x1, y); });
}

/// Every operand in guarded memory of its own.
template <class Layer, class Batch>
comparison in_guarded_memory(const Batch& b, const test::results_of<Layer>& expected, std::size_t gap,
                             std::size_t offset) {
  constexpr std::size_t hidden = test::hidden_of<Layer>, intermediate = test::intermediate_of<Layer>;
  struct memory : guarded<float> {
    memory(std::size_t rows, std::size_t cols, std::size_t gap, std::size_t offset)
        : guarded(rows, cols, cols + gap, offset) {}
  };
  const std::size_t tokens = b.tokens();
  memory x(tokens, hidden, gap, offset), grad_out(tokens, hidden, gap, offset), out(tokens, hidden, gap, offset),
      grad_x(tokens, hidden, gap, offset);
  memory gate(hidden, intermediate, gap, offset), up(hidden, intermediate, gap, offset),
      down(intermediate, hidden, gap, offset);
  memory grad_gate(hidden, intermediate, gap, offset), grad_up(hidden, intermediate, gap, offset),
      grad_down(intermediate, hidden, gap, offset);
  const comparison same = step_on<Layer>({x.view(),
                                          grad_out.view(),
                                          out.view(),
                                          grad_x.view(),
                                          {gate.view(), up.view(), down.view()},
                                          {grad_gate.view(), grad_up.view(), grad_down.view()}},
                                         b, expected);
  if (!same) return same;
  for (memory* m : {&x, &grad_out, &out, &grad_x, &gate, &up, &down, &grad_gate, &grad_up, &grad_down})
    if (const comparison intact = m->intact(); !intact) return intact;
  return {};
}

/// gate and up as the column halves of one matrix, and so their gradients, x and grad_out, out and grad_x.
template <class Layer, class Batch>
comparison in_column_halves(const Batch& b, const test::results_of<Layer>& expected) {
  constexpr std::size_t hidden = test::hidden_of<Layer>, intermediate = test::intermediate_of<Layer>;
  const std::size_t tokens = b.tokens();
  guarded<float> gate_up(hidden, 2 * intermediate), grad_gate_up(hidden, 2 * intermediate), down(intermediate, hidden),
      grad_down(intermediate, hidden), inputs(tokens, 2 * hidden), outputs(tokens, 2 * hidden);
  const auto half = [](guarded<float>& m, std::size_t nth) {
    return float_view(m.view().column_block(nth * m.cols() / 2, m.cols() / 2));
  };
  const comparison same = step_on<Layer>({half(inputs, 0),
                                          half(inputs, 1),
                                          half(outputs, 0),
                                          half(outputs, 1),
                                          {half(gate_up, 0), half(gate_up, 1), down.view()},
                                          {half(grad_gate_up, 0), half(grad_gate_up, 1), grad_down.view()}},
                                         b, expected);
  if (!same) return same;
  for (guarded<float>* m : {&gate_up, &grad_gate_up, &down, &grad_down, &inputs, &outputs})
    if (const comparison intact = m->intact(); !intact) return intact;
  return {};
}

template <class Layer>
void any_memory(tally& cases, test::sizes token_counts) {
  for (const std::size_t tokens : token_counts) {
    const test::batch_of<Layer> b(tokens, 10 + tokens);
    const auto expected = test::step<Layer>(b);
    const auto report = [&](const comparison& c, const char* where) {
      cases(c, test::hidden_of<Layer>, "x", test::intermediate_of<Layer>, "with", tokens, "tokens", where);
    };
    report(test::agrees(expected, b.exact()), "in tensors");
    report(in_guarded_memory<Layer>(b, expected, 0, 0), "in contiguous memory");
    report(in_guarded_memory<Layer>(b, expected, 0, 1), "one element off a boundary");
    report(in_guarded_memory<Layer>(b, expected, 3, 1), "in rows 3 elements apart, off a boundary");
    report(in_guarded_memory<Layer>(b, expected, 16, 0), "in rows 16 elements apart");
    report(in_column_halves<Layer>(b, expected), "in halves of one matrix");
  }
}

template <class Layer>
void purity(tally& cases, std::size_t tokens) {
  const test::batch_of<Layer> b(tokens);
  const auto before = b;
  typename Layer::saved s(tokens);
  typename Layer::workspace ws(tokens);
  test::results_of<Layer> first(tokens), second(tokens), third(tokens);
  test::step_into<Layer>(b, s, ws, first);
  const test::kept<typename Layer::saved> kept(s);

  second.out = first.out;
  Layer::backward(b.grad_out, b.x, b.w, s, ws, second.grad_x, second.grad);
  cases(same_bits(first, second), tokens, "tokens: backward twice");
  cases(same_bits(kept, test::kept<typename Layer::saved>(s)), tokens, "tokens: saved after backward");
  test::step_into<Layer>(b, s, ws, third);
  cases(same_bits(first, third), tokens, "tokens: a step after a step");
  for (const auto& [after, as_it_was] : {std::pair{&b.x, &before.x}, {&b.grad_out, &before.grad_out}})
    cases(same_bits(*after, *as_it_was), tokens, "tokens: an input");
  cases(same_bits(b.w.gate, before.w.gate) && same_bits(b.w.up, before.w.up) && same_bits(b.w.down, before.w.down),
        tokens, "tokens: the weights");
}

constexpr dims one{.hidden = 1, .intermediate = 1}, odd{.hidden = 3, .intermediate = 5},
    tails{.hidden = 17, .intermediate = 33}, even{.hidden = 64, .intermediate = 96},
    large{.hidden = 320, .intermediate = 853};

}  // namespace

TEST_CASE_TEMPLATE("any shape in any memory: the same bits, within bounds, and nothing else is touched", S, fused,
                   recompute, xla) {
  tally cases;
  any_memory<typename S::template layer<one>>(cases, {0, 1, 2, 3, 7, 8, 16, 17, 33});
  any_memory<typename S::template layer<odd>>(cases, {0, 1, 2, 3, 5, 7, 8, 9, 12, 13, 15, 16, 17, 31, 32, 33, 65});
  any_memory<typename S::template layer<tails>>(cases, {0, 1, 2, 3, 5, 7, 8, 9, 12, 13, 15, 16, 17, 31, 32, 33, 65});
  any_memory<typename S::template layer<even>>(cases, {0, 1, 4, 6, 11, 24, 32, 64});
  if (test::fast_build)
    any_memory<typename S::template layer<large>>(cases, {0, 1, 31});
  else
    any_memory<typename S::template layer<large>>(cases, {1, 5});
  CHECK(cases);
}

TEST_CASE_TEMPLATE("more tokens than a block of rows or of depth", S, fused, recompute, xla) {
  tally cases;
  if (test::fast_build)
    any_memory<typename S::template layer<odd>>(cases, {512, 513, 1919, 1920, 1921, 3845});
  else
    any_memory<typename S::template layer<odd>>(cases, {513, 1921});
  CHECK(cases);
}

TEST_CASE_TEMPLATE("a step changes no input, backward not even saved; again, it gives the same bits", S, fused,
                   recompute, xla) {
  tally cases;
  for (const std::size_t tokens : test::sizes{0, 1, 7, 33}) {
    purity<typename S::template layer<odd>>(cases, tokens);
    purity<typename S::template layer<tails>>(cases, tokens);
  }
  CHECK(cases);
}

TEST_CASE_TEMPLATE("what an output held before does not matter", S, fused, recompute, xla) {
  using layer = typename S::template layer<dims{.hidden = 5, .intermediate = 7}>;
  constexpr std::size_t tokens = 3;
  const test::batch_of<layer> b(tokens);
  typename layer::saved s(tokens);
  typename layer::workspace ws(tokens);
  test::results_of<layer> zero(tokens, 0), nan(tokens), infinite(tokens, std::numeric_limits<float>::infinity());
  for (auto* r : {&zero, &nan, &infinite}) test::step_into<layer>(b, s, ws, *r);
  CHECK(test::agrees(zero, b.exact()));
  CHECK(same_bits(nan, zero));
  CHECK(same_bits(infinite, zero));
  nan.set(std::nanf(""));
  layer::forward(b.x, b.w, s, ws, nan.out);
  layer::backward(b.grad_out, b.x, b.w, s, ws, nan.grad_x, overwrite(nan.grad));  // the default, by name
  CHECK(same_bits(nan, zero));
}

TEST_CASE_TEMPLATE("accumulate: k steps give k times the gradient more", S, fused, recompute, xla) {
  using layer = typename S::template layer<one>;
  test::batch_of<layer> b(1);
  b.x(0, 0) = 1, b.w.gate(0, 0) = 1, b.w.up(0, 0) = 2, b.w.down(0, 0) = 3, b.grad_out(0, 0) = 1;
  test::results_of<layer> r(1, 1);
  typename layer::saved s(1);
  typename layer::workspace ws(1);
  for (int k = 1; k <= 4; ++k) {
    layer::forward(b.x, b.w, s, ws, r.out);
    layer::backward(b.grad_out, b.x, b.w, s, ws, r.grad_x, accumulate(r.grad));
    CHECK(r.grad.gate(0, 0) == doctest::Approx(1 + k * 5.56602307).epsilon(1e-6));
    CHECK(r.grad.up(0, 0) == doctest::Approx(1 + k * 2.19317574).epsilon(1e-6));
    CHECK(r.grad.down(0, 0) == doctest::Approx(1 + k * 1.46211716).epsilon(1e-6));
    CHECK(r.grad_x(0, 0) == doctest::Approx(9.95237454).epsilon(1e-6));  // never accumulated
  }
}

TEST_CASE_TEMPLATE("accumulate: what was there plus the gradient, rounded once", S, fused, recompute, xla) {
  const auto check = [](auto* which, std::size_t tokens) {
    using layer = std::remove_pointer_t<decltype(which)>;
    const test::batch_of<layer> b(tokens), other(tokens, 77);
    const auto gradient = test::step<layer>(b), there = test::step<layer>(other);
    auto sum = there;
    typename layer::saved s(tokens);
    typename layer::workspace ws(tokens);
    layer::forward(b.x, b.w, s, ws, sum.out);
    auto views = sum.grad.view();
    layer::backward(b.grad_out, b.x, b.w, s, ws, sum.grad_x, accumulate(views));
    bool right = true;
    const auto add = [&](const auto& before, const auto& more, const auto& after) {
      for (std::size_t i = 0; i < after.size(); ++i)
        right = right && same_bits(after.data()[i], before.data()[i] + more.data()[i]);
    };
    add(there.grad.gate, gradient.grad.gate, sum.grad.gate);
    add(there.grad.up, gradient.grad.up, sum.grad.up);
    add(there.grad.down, gradient.grad.down, sum.grad.down);
    return right && same_bits(sum.out, gradient.out) && same_bits(sum.grad_x, gradient.grad_x);
  };
  for (const std::size_t tokens : test::sizes{1, 5, 33}) {
    CHECK(check(static_cast<typename S::template layer<odd>*>(nullptr), tokens));
    CHECK(check(static_cast<typename S::template layer<tails>*>(nullptr), tokens));
  }
  // Many tokens: several blocks of depth, of which only the first may read what was there.
  CHECK(check(static_cast<typename S::template layer<odd>*>(nullptr), 1500));
}

TEST_CASE_TEMPLATE("no tokens: gradients are 0, or as they were; null pointers are allowed", S, fused, recompute, xla) {
  using layer = typename S::template layer<tails>;
  using activation = view<const float, dynamic, tails.hidden>;
  using result = view<float, dynamic, tails.hidden>;
  const test::batch_of<layer> b(4);
  const auto all_zero = [](const auto& tensor) {
    for (const float v : tensor.span())
      if (!same_bits(v, 0.0f)) return false;
    return true;
  };
  for (const std::size_t capacity : test::sizes{0, 4}) {
    typename layer::saved s(capacity);
    typename layer::workspace ws(capacity);
    test::results_of<layer> r(4);
    if (capacity != 0) test::step_into<layer>(b, s, ws, r);  // so that the memory is not fresh
    const activation nothing(nullptr, {0}), none_of_x = b.x.view().row_block(4, 0);
    for (const activation& x : {nothing, none_of_x}) {
      r.set(std::nanf(""));
      layer::forward(x, b.w, s, ws, result(nullptr, {0}));
      CHECK(s.tokens() == 0);
      layer::backward(nothing, x, b.w, s, ws, result(nullptr, {0}), r.grad);
      CHECK(all_zero(r.grad.gate));
      CHECK(all_zero(r.grad.up));
      CHECK(all_zero(r.grad.down));

      auto before = test::step<layer>(b);
      before.grad.gate(0, 1) = -std::numeric_limits<float>::denorm_min();
      before.grad.up(0, 1) = std::numeric_limits<float>::infinity();
      auto after = before;
      layer::backward(nothing, x, b.w, s, ws, result(nullptr, {0}), accumulate(after.grad));
      CHECK(same_bits(after, before));
    }
    if (capacity == 0) continue;
    test::step_into<layer>(b, s, ws, r);  // and a batch after none
    CHECK(same_bits(r, test::step<layer>(b)));
  }
}

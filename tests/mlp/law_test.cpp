// SPDX-License-Identifier: MIT

// What holds for every batch: the schedules agree with the mathematics and with each other, and what stays in memory
// between calls changes nothing.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "mlp/step.hpp"

namespace {

using swiglu::accumulate;
using swiglu::dims;
using swiglu::dynamic;
using test::agrees;
using test::comparison;
using test::fused;
using test::recompute;
using test::same_bits;
using test::tally;
using test::xla;

constexpr dims odd{.hidden = 3, .intermediate = 5}, tails{.hidden = 17, .intermediate = 33},
    even{.hidden = 64, .intermediate = 96};
constexpr dims deep{.hidden = 1100, .intermediate = 9}, deep_inside{.hidden = 7, .intermediate = 1300};

/// Both within the reference's bounds, and fused_recompute_h equal to fused to the bit.
template <dims D>
void schedules_agree(tally& cases, test::sizes token_counts) {
  using layer = fused::layer<D>;
  for (const std::size_t tokens : token_counts) {
    const test::batch_of<layer> b(tokens, 100 + tokens);
    const test::reference exact = b.exact();
    const auto one = test::step<layer>(b);
    const auto text = [&](const comparison& c, const char* what) {
      cases(c, what, D.hidden, "x", D.intermediate, "with", tokens, "tokens");
    };
    text(agrees(one, exact), "fused");
    text(agrees(test::step<xla::layer<D>>(b), exact), "xla");
    text(same_bits(test::step<recompute::layer<D>>(b), one), "fused_recompute_h");
  }
}

/// The three weights, or gradients, one after the other.
template <class Weights, class F>
void each_weight(Weights& w, F f) {
  f(w.gate), f(w.up), f(w.down);
}

}  // namespace

TEST_CASE("the schedules agree with the mathematics, and save or recompute to the bit") {
  tally cases;
  schedules_agree<odd>(cases, {0, 1, 2, 7, 64, 700});
  schedules_agree<tails>(cases, {1, 5, 33, 130});
  schedules_agree<even>(cases, {1, 13, 48});
  CHECK(cases);
}

TEST_CASE("small layers of static shape") {
  tally cases;
  schedules_agree<dims{.hidden = 1, .intermediate = 1, .tokens = 1}>(cases, {1});
  schedules_agree<dims{.hidden = 16, .intermediate = 16, .tokens = 16}>(cases, {16});
  schedules_agree<dims{.hidden = 17, .intermediate = 40, .tokens = 7}>(cases, {7});
  CHECK(cases);
}

TEST_CASE("several blocks of depth") {
  tally cases;
  schedules_agree<deep>(cases, {1, 13});
  schedules_agree<deep_inside>(cases, {1, 13});
  CHECK(cases);
}

TEST_CASE_TEMPLATE("a number of tokens known at compile time changes no bit but of grad_x", S, fused, recompute, xla) {
  using fixed = typename S::template layer<dims{.hidden = 17, .intermediate = 33, .tokens = 5}>;
  const test::batch_of<fixed> b(5);
  typename fixed::saved s;
  typename fixed::workspace ws;
  CHECK(ws.capacity() == 5);
  test::results_of<fixed> r(5);
  test::step_into<fixed>(b, s, ws, r);
  auto expected = test::step<typename S::template layer<tails>>(b);
  CHECK(agrees(r, b.exact()));
  if (!S::per_operation) expected.grad_x = r.grad_x;  // a small layer sums the branches one after the other
  CHECK(same_bits(r, expected));

  swiglu::tensor<float, 5, 17> out;
  fixed::forward(b.x.view().row_block(0, 5), b.w, s, ws, out);
  CHECK(same_bits(out, r.out));
  swiglu::tensor<float, dynamic, 17> fewer(4);
  CHECK_THROWS_WITH_AS(fixed::forward(b.x.view().row_block(0, 4), b.w, s, ws, fewer),
                       "swiglu: forward: tokens: expected 5, got 4", swiglu::shape_error);
}

TEST_CASE_TEMPLATE("memory used before, for more tokens, changes no bit", S, fused, recompute, xla) {
  using layer = typename S::template layer<tails>;
  typename layer::saved s(50);
  typename layer::workspace ws(50);
  const test::batch_of<layer> full(50, 9);
  test::results_of<layer> all(50);
  tally cases;
  for (const std::size_t tokens : test::sizes{1, 49, 2, 16, 50, 31, 0, 33, 3}) {
    // Infinity and NaN in every panel, padding excepted, before each step.
    auto bad = full;
    for (const std::size_t row : test::sizes{0, 17, 49}) bad.x(row, 0) = std::nanf(""), bad.grad_out(row, 3) = INFINITY;
    test::step_into<layer>(bad, s, ws, all);
    const test::batch_of<layer> b(tokens, tokens);
    test::results_of<layer> r(tokens);
    test::step_into<layer>(b, s, ws, r);
    cases(same_bits(r, test::step<layer>(b)), tokens, "tokens");
    CHECK(s.tokens() == tokens);
    CHECK(s.capacity() == 50);
  }
  CHECK(cases);
}

TEST_CASE_TEMPLATE("one workspace serves two layers and two micro-batches in turn", S, fused, recompute, xla) {
  using layer = typename S::template layer<tails>;
  const test::batch_of<layer> a(13, 1), b(20, 2);
  typename layer::saved of_a(13), of_b(20);
  typename layer::workspace ws(20);
  test::results_of<layer> ra(13), rb(20);
  layer::forward(a.x, a.w, of_a, ws, ra.out);
  layer::forward(b.x, b.w, of_b, ws, rb.out);
  layer::backward(b.grad_out, b.x, b.w, of_b, ws, rb.grad_x, rb.grad);
  layer::backward(a.grad_out, a.x, a.w, of_a, ws, ra.grad_x, ra.grad);
  CHECK(same_bits(ra, test::step<layer>(a)));
  CHECK(same_bits(rb, test::step<layer>(b)));
}

TEST_CASE_TEMPLATE("a batch in pieces: rows of out and grad_x to the bit, accumulated gradients to rounding", S, fused,
                   recompute, xla) {
  using layer = typename S::template layer<tails>;
  const test::batch_of<layer> whole(40);
  const test::reference exact = whole.exact();
  const auto at_once = test::step<layer>(whole);
  REQUIRE(agrees(at_once, exact));
  typename layer::saved s(40);
  typename layer::workspace ws(40);
  test::results_of<layer> r(40);
  each_weight(r.grad, [](auto& g) { test::fill_with(g, [] { return 0; }); });
  for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{0, 9}, {9, 0}, {9, 1}, {10, 17}, {27, 13}}) {
    const auto part = [first = first, count = count](auto& tensor) { return tensor.view().row_block(first, count); };
    layer::forward(part(whole.x), whole.w, s, ws, part(r.out));
    layer::backward(part(whole.grad_out), part(whole.x), whole.w, s, ws, part(r.grad_x), accumulate(r.grad));
  }
  CHECK(same_bits(r.out, at_once.out));
  CHECK(same_bits(r.grad_x, at_once.grad_x));
  CHECK(agrees(r, exact));
}

TEST_CASE_TEMPLATE("accumulating twice gives twice the gradient", S, fused, recompute, xla) {
  using layer = typename S::template layer<tails>;
  const test::batch_of<layer> b(21);
  const auto once = test::step<layer>(b);
  typename layer::saved s(21);
  typename layer::workspace ws(21);
  test::results_of<layer> r(21, 0);
  layer::forward(b.x, b.w, s, ws, r.out);
  for (int i = 0; i < 2; ++i) layer::backward(b.grad_out, b.x, b.w, s, ws, r.grad_x, accumulate(r.grad));
  const auto doubled = [](const auto& g, const auto& twice) {
    bool right = true;
    for (std::size_t i = 0; i < g.size(); ++i) right = right && twice.data()[i] == 2 * g.data()[i];
    return right;
  };
  CHECK(doubled(once.grad.gate, r.grad.gate));
  CHECK(doubled(once.grad.up, r.grad.up));
  CHECK(doubled(once.grad.down, r.grad.down));
}

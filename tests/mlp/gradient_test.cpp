// SPDX-License-Identifier: MIT

// In double: what backward computes is the gradient of what forward computes.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "mlp/step.hpp"

namespace {

using swiglu::dims;
using test::fused;
using test::recompute;
using test::tally;
using test::xla;

/// The sum of out * grad_out, whose gradients backward computes.
template <class Layer>
double loss(const test::batch_of<Layer>& b) {
  typename Layer::saved s(b.tokens());
  typename Layer::workspace ws(b.tokens());
  test::results_of<Layer> r(b.tokens());
  Layer::forward(b.x, b.w, s, ws, r.out);
  double sum = 0;
  for (std::size_t i = 0; i < r.out.size(); ++i) sum += r.out.data()[i] * b.grad_out.data()[i];
  return sum;
}

}  // namespace

TEST_CASE_TEMPLATE("double agrees with the mathematics", S, fused, recompute, xla) {
  using layer = typename S::template layer<dims{.hidden = 17, .intermediate = 33}, double>;
  for (const std::size_t tokens : test::sizes{1, 6, 35}) {
    const test::batch_of<layer> b(tokens);
    test::reference exact = b.exact();
    // The reference is itself computed in double, and no more exactly.
    for (test::estimate* e : {&exact.out, &exact.grad_x, &exact.grad_gate, &exact.grad_up, &exact.grad_down})
      e->error = 2 * e->error;
    CHECK(test::agrees(test::step<layer>(b), exact));
  }
}

TEST_CASE_TEMPLATE("the gradients are those of the function", S, fused, recompute, xla) {
  using layer = typename S::template layer<dims{.hidden = 5, .intermediate = 7}, double>;
  test::batch_of<layer> b(3);
  const auto r = test::step<layer>(b);
  tally cases;
  const auto check = [&](const char* name, auto& variable, const auto& gradient) {
    for (std::size_t i = 0; i < variable.size(); ++i) {
      constexpr double h = 1e-4;
      double& v = variable.data()[i];
      const double before = v;
      // Five points: an error of h^4 / 30 times the fifth derivative.
      const auto at = [&](double distance) {
        v = before + distance;
        return loss<layer>(b);
      };
      const double slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      v = before;
      const double g = gradient.data()[i];
      cases(std::abs(slope - g) <= 1e-9 * std::max(1.0, std::abs(g)), name, i, "slope", slope, "gradient", g);
    }
  };
  check("x", b.x, r.grad_x);
  check("gate", b.w.gate, r.grad.gate);
  check("up", b.w.up, r.grad.up);
  check("down", b.w.down, r.grad.down);
  CHECK(cases);
}

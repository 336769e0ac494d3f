// SPDX-License-Identifier: MIT

// Very large and very small numbers, infinities and NaN, at every place of a row: in every lane and in the tail.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "mlp/step.hpp"
#include "support/ulp.hpp"

namespace {

using swiglu::dims;
using test::fused;
using test::recompute;
using test::same_bits;
using test::tally;
using test::xla;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr double eps = std::numeric_limits<float>::epsilon();

/// A layer whose h1 is the first `columns` columns of x, whose h3 is 1, and whose down is the identity: with grad_out
/// 1, out is silu(x), and grad_x is silu'(x) there and the sum of silu(x) in the last column.
constexpr std::size_t columns = 33;
constexpr dims identity{.hidden = columns + 1, .intermediate = columns};

template <class Layer>
test::batch_of<Layer> identity_case(const std::vector<float>& values) {
  test::batch_of<Layer> b(values.size());
  const auto set = [](auto& tensor, auto f) {
    for (std::size_t r = 0; r < tensor.rows(); ++r)
      for (std::size_t c = 0; c < tensor.cols(); ++c) tensor(r, c) = f(r, c);
  };
  set(b.w.gate, [](std::size_t r, std::size_t c) { return r == c ? 1.0f : 0.0f; });
  set(b.w.up, [](std::size_t r, std::size_t) { return r == columns ? 1.0f : 0.0f; });
  set(b.w.down, [](std::size_t r, std::size_t c) { return r == c ? 1.0f : 0.0f; });
  // Every value comes to every column.
  set(b.x, [&](std::size_t r, std::size_t c) { return c == columns ? 1.0f : values[(r + c) % values.size()]; });
  set(b.grad_out, [](std::size_t, std::size_t c) { return c == columns ? 0.0f : 1.0f; });
  return b;
}

enum class input { x, grad_out, gate, up, down };
constexpr input inputs[] = {input::x, input::grad_out, input::gate, input::up, input::down};

/// Whether a result's element (r, c) depends on element (i, j) of an input.
bool depends(const std::string& result, std::size_t r, std::size_t c, input on, std::size_t i, std::size_t j) {
  const bool gate = result == "grad_gate", up = result == "grad_up", down = result == "grad_down";
  switch (on) {
    case input::x:  // row i of h1 and h3, and with it every element of the weight gradients
      return gate || up || down || r == i;
    case input::grad_out:  // row i of g_h; column j of grad_down
      if (result == "out") return false;
      return gate || up || (down ? c == j : r == i);
    case input::gate:  // column j of h1
      if (gate || up) return c == j;
      return down ? r == j : true;
    case input::up:  // column j of h3: h and g_h1, not g_h3
      if (gate) return c == j;
      if (up) return false;
      return down ? r == j : true;
    case input::down:  // column j of out, column i of g_h
      if (result == "out") return c == j;
      if (gate || up) return c == i;
      return !down;
  }
  return false;
}

template <class Batch, class F>
void with_element(Batch& b, input which, float value, F f) {
  const auto one = [&](auto& tensor) {
    const std::size_t rows = tensor.rows(), cols = tensor.cols();
    const std::size_t places[][2] = {{0, 0}, {rows - 1, cols - 1}, {rows / 2, cols / 3}, {0, cols - 1}};
    for (const auto& [r, c] : places) {
      float& element = tensor(r, c);
      const float before = std::exchange(element, value);
      f(r, c);
      element = before;
    }
  };
  switch (which) {
    case input::x:
      return one(b.x);
    case input::grad_out:
      return one(b.grad_out);
    case input::gate:
      return one(b.w.gate);
    case input::up:
      return one(b.w.up);
    case input::down:
      return one(b.w.down);
  }
}

/// NaN in one element of one input reaches exactly what depends on it; everything else keeps its bits.
template <class Layer>
void nan_reaches_what_depends(tally& cases) {
  for (const std::size_t tokens : test::sizes{1, 2, 5, 7, 13, 17}) {
    test::batch_of<Layer> b(tokens);
    const auto clean = test::step<Layer>(b);
    typename Layer::saved s(tokens);
    typename Layer::workspace ws(tokens);
    test::results_of<Layer> r(tokens);
    for (const input which : inputs)
      with_element(b, which, not_a_number, [&](std::size_t i, std::size_t j) {
        r.set(0);
        test::step_into<Layer>(b, s, ws, r);
        std::size_t wrong = 0;
        std::string where;
        const auto check = [&](const std::string& name, const auto& now, const auto& before) {
          for (std::size_t row = 0; row < now.rows(); ++row)
            for (std::size_t col = 0; col < now.cols(); ++col) {
              const bool right = depends(name, row, col, which, i, j) ? std::isnan(now(row, col))
                                                                      : same_bits(now(row, col), before(row, col));
              if (!right && wrong++ == 0) where = name + "(" + std::to_string(row) + ", " + std::to_string(col) + ")";
            }
        };
        check("out", r.out, clean.out), check("grad_x", r.grad_x, clean.grad_x);
        check("grad_gate", r.grad.gate, clean.grad.gate), check("grad_up", r.grad.up, clean.grad.up);
        check("grad_down", r.grad.down, clean.grad.down);
        cases(wrong == 0, tokens, "tokens, input", static_cast<int>(which), "element", i, j, "wrong first at", where);
      });
  }
}

/// An infinite or huge x spoils its own row, and the weight gradients, and no other row.
template <class Layer>
void rows_are_independent(tally& cases) {
  for (const std::size_t tokens : test::sizes{2, 7, 13}) {
    test::batch_of<Layer> b(tokens);
    const auto clean = test::step<Layer>(b);
    for (const float value : {infinity, -infinity, std::numeric_limits<float>::max(), not_a_number})
      for (const input which : {input::x, input::grad_out})
        with_element(b, which, value, [&](std::size_t i, std::size_t j) {
          const auto r = test::step<Layer>(b);
          for (std::size_t row = 0; row < tokens; ++row) {
            if (row == i) continue;
            const auto out = r.out.view().row_block(row, 1), grad_x = r.grad_x.view().row_block(row, 1);
            cases(same_bits(out, clean.out.view().row_block(row, 1)), "out row", row, value, "at", i, j);
            cases(same_bits(grad_x, clean.grad_x.view().row_block(row, 1)), "grad_x row", row, value, "at", i, j);
          }
        });
  }
}

}  // namespace

TEST_CASE_TEMPLATE("silu and silu' through the layer, in every column", S, fused, recompute, xla) {
  using layer = typename S::template layer<identity>;
  // -1662.7 .. -.5: a batch on which another library's sigmoid overflowed
  const std::vector<float> values{-87,      -80.5,   -20,   -5,    -1.5,    -1e-3f,  -0.0f, 0,        1e-3f,
                                  1,        20,      87,    89,    100,     1e4,     1e30f, -1662.7f, 3212.5f,
                                  -1093.7f, 2063.8f, 91.4f, -1471, 1823.2f, 1935.3f, -.5f};
  const auto b = identity_case<layer>(values);
  const auto r = test::step<layer>(b);
  tally silu, silu_grad;
  for (std::size_t t = 0; t < values.size(); ++t)
    for (std::size_t c = 0; c < columns; ++c) {
      const float x = b.x(t, c);
      const auto exact = static_cast<double>(x), value = test::silu(exact), slope = test::silu_grad(exact);
      const auto out = static_cast<double>(r.out(t, c)), grad = static_cast<double>(r.grad_x(t, c));
      if (x >= -87) {
        silu(test::ulps(r.out(t, c), value) <= 4, "silu", x, "is", out, "in column", c);
        // XLA's schedule keeps sigmoid only: 1 - sigmoid is then a subtraction, whose error x multiplies.
        const double allowed = S::per_operation ? eps * (4 + std::abs(exact)) : 8 * eps * std::abs(slope) + 4 * eps;
        silu_grad(std::abs(grad - slope) <= allowed, "silu'", x, "is", grad, "in column", c);
      } else {
        silu(out <= 0 && out >= -1e-36, "silu", x, "is", out, "in column", c);
        silu_grad(std::abs(grad) <= 1e-36, "silu'", x, "is", grad, "in column", c);
      }
    }
  CHECK(silu);
  CHECK(silu_grad);
}

TEST_CASE_TEMPLATE("silu decays towards 0 and never changes sign", S, fused, recompute, xla) {
  using layer = typename S::template layer<identity>;
  std::vector<float> values;
  for (float x = -20; x >= -210; x -= 1) values.push_back(x);
  const auto b = identity_case<layer>(values);
  const auto r = test::step<layer>(b);
  tally cases;
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t t = 0; t < values.size(); ++t) {
      const float x = b.x(t, c), y = r.out(t, c);
      cases(y <= 0 && r.grad_x(t, c) <= 0, "the sign at", x, "column", c);
      cases(static_cast<double>(y) >= 1.001 * test::silu(static_cast<double>(x)) - 1e-41, "silu", x, "is", y);
      if (t + 1 < values.size() && b.x(t + 1, c) < x) cases(r.out(t + 1, c) >= y, "decay at", x, "column", c);
      if (x <= -100) cases(std::abs(y) < 1e-40f, "silu", x, "is", y, "column", c);
    }
  CHECK(cases);
}

TEST_CASE_TEMPLATE("NaN reaches exactly what depends on it", S, fused, recompute, xla) {
  tally cases;
  nan_reaches_what_depends<typename S::template layer<dims{.hidden = 1, .intermediate = 1}>>(cases);
  nan_reaches_what_depends<typename S::template layer<dims{.hidden = 3, .intermediate = 5}>>(cases);
  nan_reaches_what_depends<typename S::template layer<dims{.hidden = 17, .intermediate = 33}>>(cases);
  nan_reaches_what_depends<typename S::template layer<dims{.hidden = 64, .intermediate = 48}>>(cases);
  CHECK(cases);
}

TEST_CASE_TEMPLATE("infinity and NaN stay in their row", S, fused, recompute, xla) {
  tally cases;
  rows_are_independent<typename S::template layer<dims{.hidden = 3, .intermediate = 5}>>(cases);
  rows_are_independent<typename S::template layer<dims{.hidden = 17, .intermediate = 33}>>(cases);
  rows_are_independent<typename S::template layer<dims{.hidden = 64, .intermediate = 48}>>(cases);
  CHECK(cases);
}

TEST_CASE_TEMPLATE("limits: silu(-inf) = 0, silu'(-inf) = 0, silu'(+inf) = 1, inf times 0 is NaN", S, fused, recompute,
                   xla) {
  using layer = typename S::template layer<dims{.hidden = 1, .intermediate = 1}>;
  test::batch_of<layer> b(1);
  const auto with = [&](float gate, float up) {
    b.x(0, 0) = 1, b.w.gate(0, 0) = gate, b.w.up(0, 0) = up, b.w.down(0, 0) = 1, b.grad_out(0, 0) = 1;
    return test::step<layer>(b);
  };
  auto r = with(-infinity, 2);
  CHECK(r.out(0, 0) == 0);
  CHECK(r.grad.gate(0, 0) == 0);  // x g h3 silu'(h1)
  CHECK(r.grad.up(0, 0) == 0);    // x g silu(h1)
  r = with(infinity, 2);
  CHECK(r.out(0, 0) == infinity);
  CHECK(r.grad.gate(0, 0) == 2);
  CHECK(r.grad.up(0, 0) == infinity);
  r = with(infinity, 0);
  CHECK(std::isnan(r.out(0, 0)));
  CHECK(r.grad.gate(0, 0) == 0);
  r = with(not_a_number, 2);
  CHECK(std::isnan(r.out(0, 0)));
  CHECK(std::isnan(r.grad.gate(0, 0)));
}

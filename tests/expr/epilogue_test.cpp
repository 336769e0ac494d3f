// SPDX-License-Identifier: MIT
// Named products and what is made of them in the epilogue: the same bits as in two steps, the products stored first.

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>

#include <swiglu/expr/evaluate.hpp>

#include "support/operands.hpp"

using namespace swiglu;
using test::dynamic_tensor;
using test::guarded;
using test::guarded_panels;
using test::to_matrix;

namespace {

template <class F>
void each_size(F f) {
  for (const std::size_t depth : test::sizes{0, 1, 33, 600})
    for (const std::size_t rows : test::sizes{0, 1, 5, 6, 13, 33})
      for (const std::size_t cols : test::sizes{0, 1, 15, 16, 17, 31, 33, 65}) f(rows, cols, depth);
}

/// Random operands, and the products by themselves.
template <class T>
struct inputs {
  dynamic_tensor<T> x, u, v, h1, h3;
  inputs(std::size_t rows, std::size_t cols, std::size_t depth)
      : x(test::random_tensor<T>(rows, depth, 1)),
        u(test::random_tensor<T>(depth, cols, 2)),
        v(test::random_tensor<T>(depth, cols, 3)),
        h1(rows, cols),
        h3(rows, cols) {
    evaluate(h1 <<= product(x, u));
    evaluate(h3 <<= product(x, v));
  }
};

}  // namespace

TEST_CASE_TEMPLATE("the forward kernel: two products stored, and the gated product of them", T, float, double) {
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const inputs<T> in(rows, cols, depth);
    guarded<T> h1(rows, cols, cols + 1, 1), h3(rows, cols), h(rows, cols, cols + 2, 3);
    const auto gate = product<"h1">(in.x, in.u);
    const auto up = product<"h3">(in.x, in.v);
    evaluate(h1.view() <<= gate, h3.view() <<= up, h.view() <<= silu(gate) * up);
    cases(test::same_bits(h1.view(), in.h1), "h1", rows, cols, depth);
    cases(test::same_bits(h3.view(), in.h3), "h3", rows, cols, depth);
    dynamic_tensor<T> expected(rows, cols);
    evaluate(expected <<= silu(in.h1) * in.h3);
    cases(test::same_bits(h.view(), expected), "h", rows, cols, depth);
    const auto oracle =
        test::each([](double a, double b) { return test::silu(a) * b; }, to_matrix(in.h1), to_matrix(in.h3));
    cases(test::near(h.view(), oracle, 5.0 * static_cast<double>(std::numeric_limits<T>::epsilon())), rows, cols,
          depth);
    cases(h1.intact() && h3.intact() && h.intact(), "around", rows, cols, depth);
  });
  CHECK(cases);
}

TEST_CASE("the same into panels: paired halves and whole ones, padding included") {
  using T = float;
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const inputs<T> in(rows, cols, depth);
    guarded_panels<T, true> pair(rows, cols);
    guarded_panels<T> h(rows, cols), s(rows, cols);
    const auto gate = product<"h1">(in.x, in.u);
    const auto up = product<"h3">(in.x, in.v);
    evaluate(pair.first() <<= gate, pair.second() <<= up, h.view() <<= silu(gate) * up, s.view() <<= sigmoid(gate));
    dynamic_tensor<T> expected(rows, cols), gates(rows, cols);
    evaluate(expected <<= silu(in.h1) * in.h3);
    evaluate(gates <<= sigmoid(in.h1));
    cases(test::same_bits(pair.first(), in.h1), "h1", rows, cols, depth);
    cases(test::same_bits(pair.second(), in.h3), "h3", rows, cols, depth);
    cases(test::same_bits(h.view(), expected), "h", rows, cols, depth);
    cases(test::same_bits(s.view(), gates), "sigmoid", rows, cols, depth);
    cases(pair.padded() && h.padded() && s.padded(), "padding", rows, cols, depth);
    cases(pair.intact() && h.intact() && s.intact(), "around", rows, cols, depth);
  });
  CHECK(cases);
}

TEST_CASE("the backward kernel: one product, never stored, and what is read beside it") {
  using T = float;
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const inputs<T> in(rows, cols, depth);
    const auto grad_out = test::random_tensor<T>(rows, depth, 4), w2 = test::random_tensor<T>(cols, depth, 5);
    guarded_panels<T, true> saved(rows, cols), grads(rows, cols);
    guarded_panels<T> h(rows, cols);
    evaluate(saved.first() <<= in.h1, saved.second() <<= in.h3);
    const auto g = product<"g_h">(grad_out, transpose(w2));
    const auto h1 = saved.first(), h3 = saved.second();
    evaluate(grads.second() <<= g * silu(h1), grads.first() <<= g * h3 * silu_grad(h1), h.view() <<= silu(h1) * h3);
    dynamic_tensor<T> g_h(rows, cols), g_h3(rows, cols), g_h1(rows, cols), again(rows, cols);
    evaluate(g_h <<= g);
    evaluate(g_h3 <<= g_h * silu(in.h1));
    evaluate(g_h1 <<= g_h * in.h3 * silu_grad(in.h1));
    evaluate(again <<= silu(in.h1) * in.h3);
    cases(test::same_bits(grads.first(), g_h1), "g_h1", rows, cols, depth);
    cases(test::same_bits(grads.second(), g_h3), "g_h3", rows, cols, depth);
    cases(test::same_bits(h.view(), again), "h", rows, cols, depth);
    cases(grads.padded() && grads.intact() && h.padded() && h.intact(), "around", rows, cols, depth);
  });
  CHECK(cases);
}

TEST_CASE("one name used many times is one product, and two names are two") {
  const inputs<float> in(13, 33, 600);
  dynamic_tensor<float> a(13, 33), b(13, 33), c(13, 33), two(13, 33);
  const auto p = product<"p">(in.x, in.u);
  const auto q = product<"q">(in.x, in.u);
  evaluate(a <<= p, b <<= p * p - p, c <<= silu(p) * silu_grad(p));
  CHECK(test::same_bits(a, in.h1));
  dynamic_tensor<float> expected(13, 33);
  evaluate(expected <<= in.h1 * in.h1 - in.h1);
  CHECK(test::same_bits(b, expected));
  evaluate(expected <<= silu(in.h1) * silu_grad(in.h1));
  CHECK(test::same_bits(c, expected));
  evaluate(two <<= p - q, a <<= product<"p">(in.x, in.u));  // the same text again is the same product
  CHECK(test::equal(two, test::matrix(13, 33)));
  CHECK(test::same_bits(a, in.h1));
}

TEST_CASE("gates of products: the same one, different ones, formulas of them") {
  const inputs<float> in(13, 33, 100);
  dynamic_tensor<float> a(13, 33), b(13, 33), c(13, 33), d(13, 33), expected(13, 33);
  const auto p = product<"p">(in.x, in.u);
  const auto q = product<"q">(in.x, in.v);
  evaluate(a <<= silu(p), b <<= silu(q), c <<= silu_grad(p * 2), d <<= sigmoid(p * 3));
  const auto is = [&](const dynamic_tensor<float>& t, const auto& expression) {
    evaluate(expected <<= expression);
    return test::same_bits(t, expected);
  };
  CHECK(is(a, silu(in.h1)));
  CHECK(is(b, silu(in.h3)));
  CHECK(is(c, silu_grad(in.h1 * 2)));
  CHECK(is(d, sigmoid(in.h1 * 3)));
  // Products without a name are never the same, even of one type.
  evaluate(a <<= silu(product(in.x, in.u)), b <<= silu(product(in.x, in.v)), c <<= silu_grad(product(in.x, in.u)));
  CHECK(is(a, silu(in.h1)));
  CHECK(is(b, silu(in.h3)));
  CHECK(is(c, silu_grad(in.h1)));
}

TEST_CASE("epilogues read row-major matrices, panels, transposes and broadcast vectors") {
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const inputs<float> in(rows, cols, depth);
    guarded<float> a(rows, cols, cols + 1, 1), t(cols, rows, rows + 1, 1), row(1, cols, 0, 1), column(1, rows, 0, 1);
    guarded<float> to(rows, cols, cols + 3, 2);
    guarded_panels<float> p(rows, cols);
    test::fill(a.view(), 1);
    test::fill(t.view(), 2);
    test::fill(p.view(), 3);
    test::fill(row.view(), 4);
    test::fill(column.view(), 5);
    evaluate(to.view() <<= (product(in.x, in.u) / (2 + a.view()) - p.view()) / (2 + transpose(t.view())) -
                           broadcast_row(row.view()) - broadcast_column(column.view()));
    bool right = true;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) {
        // Quotients and differences only: nothing that a compiler may contract.
        const float expected = (in.h1(r, c) / (2 + a.view()(r, c)) - p.view()(r, c)) / (2 + t.view()(c, r)) -
                               row.view()(0, c) - column.view()(0, r);
        right = right && test::same_bits(to.view()(r, c), expected);
      }
    cases(right, rows, cols, depth);
    cases(to.intact(), rows, cols, depth);
  });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("accumulate adds the finished product, in one step or several, also into panels", T, float, double) {
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const auto x = test::integer_tensor<T>(rows, depth, 1), u = test::integer_tensor<T>(depth, cols, 2);
    guarded<T> to(rows, cols, cols + 1, 1);
    guarded_panels<T> p(rows, cols);
    test::fill_integers(to.view(), 3);
    const auto before = to_matrix(to.view()), xu = test::product(to_matrix(x), to_matrix(u));
    evaluate(accumulate(to.view()) <<= product(x, u), accumulate(p.view()) <<= product(x, u) * 2);
    evaluate(accumulate(to.view()) <<= product(x, u));
    cases(test::equal(to.view(), before + 2.0 * xu), rows, cols, depth);
    cases(test::equal(p.view(), 2.0 * xu), rows, cols, depth);
    cases(to.intact() && p.intact() && p.padded(), rows, cols, depth);
  });
  CHECK(cases);
}

TEST_CASE("a kernel of static shapes gives the bits of the same kernel of dynamic ones") {
  tensor<float, 4, 16> x;
  tensor<float, 16, 48> u;
  tensor<float, 4, 48> h, two;
  test::fill(x, 1);
  test::fill(u, 2);
  const view<const float, dynamic, dynamic> xv = x, uv = u;
  dynamic_tensor<float> expected(4, 48);
  const auto p = product<"p">(x, u);
  evaluate(h <<= silu(p), two <<= p + p);
  evaluate(expected <<= silu(product(xv, uv)));
  CHECK(test::same_bits(h, expected));
  tensor<float, 2, 2, 16> cube;  // rank 3 on the left
  test::fill(cube, 1);
  evaluate(h <<= silu(product(cube, u)));
  CHECK(test::same_bits(h, expected));
}

TEST_CASE("the transpose of what is made of products is that of the finished matrix") {
  using T = float;
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols, std::size_t depth) {
    if (depth == 600 && rows > 6) return;
    const inputs<T> in(rows, cols, depth);
    const auto a = test::random_tensor<T>(rows, cols, 6), row = test::random_tensor<T>(1, cols, 7);
    dynamic_tensor<T> straight(rows, cols);
    guarded<T> transposed(cols, rows, rows + 1, 1);
    // One expression of the products themselves, and of their finished values.
    const auto check = [&](const char* what, auto make) {
      evaluate(transposed.view() <<= transpose(make(product(in.x, in.u), product(in.x, in.v))));
      evaluate(straight <<= make(impl::as_node(in.h1), impl::as_node(in.h3)));
      cases(test::same_bits(test::transpose(to_matrix(transposed.view())), to_matrix(straight)), what, rows, cols,
            depth);
    };
    check("a gate", [](auto p, auto) { return silu(p); });
    check("a gate of a gate", [](auto p, auto) { return silu_grad(sigmoid(p)); });
    check("a multiple", [](auto p, auto) { return 2 * p; });
    check("a negative", [](auto p, auto) { return -p; });
    check("a function", [](auto p, auto q) { return map([](auto v, auto w) { return abs(v) - w; }, p, q); });
    check("a gate of a function", [](auto p, auto q) { return silu(p / q); });
    check("a gated product", [](auto p, auto q) { return silu(p) * q; });
    check("products beside leaves", [&](auto p, auto) { return silu(p) / a - broadcast_row(row); });
    cases(transposed.intact(), rows, cols, depth);
  });
  CHECK(cases);
}

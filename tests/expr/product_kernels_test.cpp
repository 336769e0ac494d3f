// SPDX-License-Identifier: MIT
// Kernels with products in formulas: the products side by side, and everything else in the epilogue.

#include <doctest/doctest.h>

#include <cstddef>

#include <swiglu/expr/evaluate.hpp>

#include "support/operands.hpp"

using namespace swiglu;
using test::dynamic_tensor;
using test::to_matrix;

namespace {

/// Fewer shapes than for one product, with every kind of remainder and of k blocks.
template <class F>
void each_size(F f) {
  for (const std::size_t depth : test::sizes{0, 1, 33, 600, 1100})
    for (const std::size_t rows : test::sizes{0, 1, 5, 6, 13, 18})
      for (const std::size_t cols : test::sizes{0, 1, 16, 17, 40}) f(rows, cols, depth);
}

/// Integer operands and the products of all pairs of them.
template <class T>
struct inputs {
  dynamic_tensor<T> x, y, u, v, w;
  inputs(std::size_t rows, std::size_t cols, std::size_t depth)
      : x(test::integer_tensor<T>(rows, depth, 1)),
        y(test::integer_tensor<T>(rows, depth, 2)),
        u(test::integer_tensor<T>(depth, cols, 3)),
        v(test::integer_tensor<T>(depth, cols, 4)),
        w(test::integer_tensor<T>(depth, cols, 5)) {}
};
template <class T>
test::matrix exact(const dynamic_tensor<T>& a, const dynamic_tensor<T>& b) {
  return test::product(to_matrix(a), to_matrix(b));
}

}  // namespace

TEST_CASE_TEMPLATE("sums and differences of products", T, float, double) {
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const inputs<T> in(rows, cols, depth);
    test::guarded<T> to(rows, cols, cols + 1, 1);
    evaluate(to.view() <<= product(in.x, in.u) + product(in.y, in.v));
    cases(test::equal(to.view(), exact(in.x, in.u) + exact(in.y, in.v)), "two terms", rows, cols, depth);
    evaluate(to.view() <<= product(in.x, in.u) + product(in.y, in.v) + product(in.x, in.w));
    cases(test::equal(to.view(), exact(in.x, in.u) + exact(in.y, in.v) + exact(in.x, in.w)), "three", rows, cols,
          depth);
    evaluate(to.view() <<= product<"p">(in.x, in.u) - product(in.y, in.v) * 2 + 1);
    const auto expected =
        test::each([](double p, double q) { return p - 2 * q + 1; }, exact(in.x, in.u), exact(in.y, in.v));
    cases(test::equal(to.view(), expected), "difference", rows, cols, depth);
    cases(to.intact(), rows, cols, depth);
  });
  CHECK(cases);
}

TEST_CASE("a sum over the halves of paired panels, and the transpose of a sum") {
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const inputs<float> in(rows, cols, depth);
    paired_panels<float> pair(rows, depth);
    evaluate(pair.first() <<= in.x, pair.second() <<= in.y);
    dynamic_tensor<float> to(rows, cols), transposed(cols, rows);
    const auto sum = product(pair.first(), in.u) + product(pair.second(), in.v);
    evaluate(to <<= sum);
    const auto expected = exact(in.x, in.u) + exact(in.y, in.v);
    cases(test::equal(to, expected), rows, cols, depth);
    evaluate(transposed <<= transpose(sum));
    cases(test::equal(transposed, test::transpose(expected)), "transposed", rows, cols, depth);
  });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("two to five products of one left operand", T, float, double) {
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const inputs<T> in(rows, cols, depth);
    const auto z = test::integer_tensor<T>(depth, cols, 6), zz = test::integer_tensor<T>(depth, cols, 7);
    dynamic_tensor<T> a(rows, cols), b(rows, cols), c(rows, cols), d(rows, cols), e(rows, cols);
    const auto check = [&](int products) {
      const dynamic_tensor<T>* results[] = {&a, &b, &c, &d, &e};
      const dynamic_tensor<T>* factors[] = {&in.u, &in.v, &in.w, &z, &zz};
      for (int i = 0; i < products; ++i) {
        cases(test::equal(*results[i], exact(in.x, *factors[i])), products, "products, number", i, rows, cols, depth);
        test::fill(*const_cast<dynamic_tensor<T>*>(results[i]), 1);
      }
    };
    evaluate(a <<= product(in.x, in.u), b <<= product(in.x, in.v));
    check(2);
    evaluate(a <<= product(in.x, in.u), b <<= product(in.x, in.v), c <<= product(in.x, in.w));
    check(3);
    evaluate(a <<= product(in.x, in.u), b <<= product(in.x, in.v), c <<= product(in.x, in.w), d <<= product(in.x, z));
    check(4);
    evaluate(a <<= product(in.x, in.u), b <<= product(in.x, in.v), c <<= product(in.x, in.w), d <<= product(in.x, z),
             e <<= product(in.x, zz));
    check(5);
  });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("products of different left operands, of different depths, in one kernel", T, float, double) {
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const inputs<T> in(rows, cols, depth);
    const auto s = test::integer_tensor<T>(7, rows, 6), t = test::integer_tensor<T>(7, cols, 7);
    dynamic_tensor<T> a(rows, cols), b(rows, cols), c(rows, cols), d(rows, cols);
    evaluate(a <<= product(in.x, in.u), b <<= product(in.y, in.u));
    cases(test::equal(a, exact(in.x, in.u)) && test::equal(b, exact(in.y, in.u)), "1+1", rows, cols, depth);
    evaluate(a <<= product(in.x, in.u), b <<= product(in.y, in.u), c <<= product(in.x, in.v),
             d <<= product(transpose(s), t));
    const auto st = test::product(test::transpose(to_matrix(s)), to_matrix(t));
    cases(test::equal(a, exact(in.x, in.u)) && test::equal(c, exact(in.x, in.v)), "2 of 2+1+1", rows, cols, depth);
    cases(test::equal(b, exact(in.y, in.u)) && test::equal(d, st), "1+1 of 2+1+1", rows, cols, depth);
    evaluate(a <<= product(in.x, in.u) + product(transpose(s), t), b <<= product(in.y, in.v));
    cases(test::equal(a, exact(in.x, in.u) + st) && test::equal(b, exact(in.y, in.v)), "sum beside", rows, cols, depth);
  });
  CHECK(cases);
}

TEST_CASE("every element of the all-ones layer is exact") {
  constexpr std::size_t tokens = 128, hidden = 64, intermediate = 256;
  dynamic_tensor<float> x(tokens, hidden), w1(hidden, intermediate), w3(hidden, intermediate), w2(intermediate, hidden);
  dynamic_tensor<float> h(tokens, intermediate), out(tokens, hidden), g1(tokens, intermediate),
      g3(tokens, intermediate);
  dynamic_tensor<float> grad_x(tokens, hidden), grad_w1(hidden, intermediate), grad_w2(intermediate, hidden);
  for (auto* t : {&x, &w1, &w3, &w2}) evaluate(*t <<= 1);
  const dynamic_tensor<float> grad_out = x;
  const auto all = [](const dynamic_tensor<float>& t, double value) {
    return test::equal(t, test::generate(t.rows(), t.cols(), [=](std::size_t, std::size_t) { return value; }));
  };
  const auto gate = product<"h1">(x, w1);
  const auto up = product<"h3">(x, w3);
  evaluate(h <<= silu(gate) * up);
  CHECK(all(h, 4096));
  evaluate(out <<= product(h, w2));
  CHECK(all(out, 1048576));
  const auto g = product<"g">(grad_out, transpose(w2));
  dynamic_tensor<float> h1(tokens, intermediate), h3(tokens, intermediate);
  evaluate(h1 <<= gate, h3 <<= up);
  evaluate(g1 <<= g * h3 * silu_grad(h1), g3 <<= g * silu(h1));
  CHECK(all(g1, 4096));
  CHECK(all(g3, 4096));
  evaluate(grad_x <<= product(g1, transpose(w1)) + product(g3, transpose(w3)));
  CHECK(all(grad_x, 2097152));
  evaluate(grad_w1 <<= product(transpose(x), g1));
  CHECK(all(grad_w1, 524288));
  evaluate(grad_w2 <<= product(transpose(h), grad_out));
  CHECK(all(grad_w2, 524288));
}

TEST_CASE("a product of depth 0 is 0 in every formula, and adds nothing") {
  const dynamic_tensor<float> x(5, 0), u(0, 19);
  dynamic_tensor<float> a(5, 19), b = test::random_tensor<float>(5, 19, 1), c(5, 19);
  const dynamic_tensor<float> before = b;
  const dynamic_tensor<float> y(5, 0), v(0, 19), z(5, 0);
  test::fill(a, 2);
  evaluate(a <<= product(x, u), accumulate(b) <<= product(y, v), c <<= product(z, u) + product(x, v) + 3);
  CHECK(test::equal(a, test::matrix(5, 19)));
  CHECK(test::same_bits(b, before));
  CHECK(test::equal(c, test::generate(5, 19, [](std::size_t, std::size_t) { return 3; })));
  const panels<float> p(5, 0), q(0, 19);
  evaluate(a <<= product(p.view(), q.view()) - 1);
  CHECK(test::equal(a, test::generate(5, 19, [](std::size_t, std::size_t) { return -1; })));
  const panels<float> s(0, 5);
  evaluate(a <<= product(transpose(s.view()), q.view()));
  CHECK(test::equal(a, test::matrix(5, 19)));
}

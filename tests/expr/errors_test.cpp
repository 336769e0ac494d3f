// SPDX-License-Identifier: MIT
// Shapes known at run time that do not fit: a shape_error that names the argument and both numbers, and nothing
// written.

#include <doctest/doctest.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include <swiglu/expr/evaluate.hpp>

#include "support/compare.hpp"
#include "support/random.hpp"

using namespace swiglu;
using test::dynamic_tensor;

namespace {

struct shapes {
  dynamic_tensor<float> a{3, 5}, b{4, 5}, c{3, 6}, w{5, 7}, u{6, 7}, v{5, 8}, row{1, 5}, two_rows{2, 5};
  dynamic_tensor<float> to = test::random_tensor<float>(3, 5, 1), product_to = test::random_tensor<float>(3, 7, 2);
  const dynamic_tensor<float> to_before = to, product_to_before = product_to;

  bool untouched() const { return test::same_bits(to, to_before) && test::same_bits(product_to, product_to_before); }
};

}  // namespace

TEST_CASE("operands of an elementwise operation") {
  shapes s;
  CHECK_THROWS_WITH_AS((void)(s.a + s.b), "swiglu: rows of an elementwise operation: expected 3, got 4", shape_error);
  CHECK_THROWS_WITH_AS((void)(s.a * s.c), "swiglu: columns of an elementwise operation: expected 5, got 6",
                       shape_error);
  CHECK_THROWS_AS((void)map([](auto x, auto, auto) { return x; }, s.a, s.a, s.b), shape_error);
  CHECK_THROWS_AS((void)(s.a - transpose(s.a)), shape_error);
  CHECK_THROWS_AS((void)(silu(s.a) / sigmoid(s.b)), shape_error);
  CHECK_THROWS_AS((void)(s.c + broadcast_row(s.row)), shape_error);
  CHECK_THROWS_AS((void)(s.a + broadcast_column(s.row)), shape_error);
  CHECK_NOTHROW((void)(s.a + broadcast_row(s.row)));
  CHECK_THROWS_WITH_AS((void)broadcast_row(s.two_rows), "swiglu: broadcast: rows of the vector: expected 1, got 2",
                       shape_error);
  CHECK_THROWS_AS((void)broadcast_column(s.two_rows), shape_error);
}

TEST_CASE("factors and terms of products") {
  shapes s;
  CHECK_THROWS_WITH_AS((void)product(s.a, s.u), "swiglu: product(a, b): rows of b: expected 5, got 6", shape_error);
  CHECK_THROWS_AS((void)product(transpose(s.a), s.w), shape_error);
  CHECK_THROWS_WITH_AS((void)(product(s.a, s.w) + product(s.b, s.w)),
                       "swiglu: sum of products: rows: expected 3, got 4", shape_error);
  CHECK_THROWS_WITH_AS((void)(product(s.a, s.w) + product(s.a, s.v)),
                       "swiglu: sum of products: columns: expected 7, got 8", shape_error);
  CHECK_THROWS_AS((void)(product<"p">(s.a, s.w) * product<"q">(s.b, s.w)), shape_error);
}

TEST_CASE("destinations") {
  shapes s;
  CHECK_THROWS_WITH_AS((void)(s.to <<= s.b), "swiglu: rows of the expression assigned: expected 3, got 4", shape_error);
  CHECK_THROWS_WITH_AS((void)(s.to <<= s.c + 1), "swiglu: columns of the expression assigned: expected 5, got 6",
                       shape_error);
  CHECK_THROWS_AS((void)(s.to <<= product(s.a, s.w)), shape_error);
  CHECK_THROWS_AS((void)(accumulate(s.to) <<= transpose(s.a)), shape_error);
  CHECK_THROWS_AS((void)(noalias(s.to) <<= broadcast_row(s.w.view().row_block(0, 1))), shape_error);
  panels<float> p(3, 6);
  CHECK_THROWS_AS((void)(p <<= s.a), shape_error);
  p.set_rows(2);
  CHECK_THROWS_AS((void)(p <<= s.c), shape_error);
  CHECK_THROWS_WITH_AS(evaluate(s.to <<= s.a, s.product_to <<= product(s.a, s.w)),
                       "swiglu: evaluate: columns of a destination: expected 5, got 7", shape_error);
  CHECK_THROWS_WITH_AS(evaluate(s.to <<= s.a, s.b <<= 1), "swiglu: evaluate: rows of a destination: expected 3, got 4",
                       shape_error);
  CHECK(s.untouched());
}

TEST_CASE("products of one name have the same operands, or nothing is computed") {
  shapes s;
  const auto a = test::random_tensor<float>(3, 5, 1), other = test::random_tensor<float>(3, 5, 2);
  const auto w = test::random_tensor<float>(5, 7, 3), another = test::random_tensor<float>(5, 7, 4);
  dynamic_tensor<float> second(3, 7);
  const auto refused = [&](const auto& x, const auto& y) {
    CHECK_THROWS_WITH_AS(evaluate(s.product_to <<= x, second <<= y),
                         "swiglu: evaluate: two products named \"p\" have different operands", std::invalid_argument);
    CHECK(s.untouched());
    CHECK(test::equal(second, dynamic_tensor<float>(3, 7)));
  };
  refused(product<"p">(a, w), product<"p">(other, w));
  refused(product<"p">(a, w), product<"p">(a, another));
  refused(product<"p">(a, w), silu(product<"p">(a, w)) * product<"p">(other, another));
  // Operands that begin at the same address but end elsewhere.
  const view<const float, dynamic, dynamic> whole = a, part = a.view().column_block(0, 4);
  const view<const float, dynamic, dynamic> whole_w = w, part_w = w.view().row_block(0, 4);
  refused(product<"p">(whole, whole_w), product<"p">(part, part_w));
  CHECK_NOTHROW(evaluate(s.product_to <<= product<"p">(a, w), second <<= product<"p">(a, w)));
}

TEST_CASE("a shape error while scratch memory is being measured does not leave it measuring") {
  scratch<float> memory;
  serial one;
  shapes s;
  CHECK_THROWS_AS(memory.measure([&] { evaluate(resources{memory, one}, s.to <<= s.b); }), shape_error);
  CHECK_FALSE(memory.measuring());
  evaluate(resources{memory, one}, s.to <<= s.a);
  CHECK(test::same_bits(s.to, s.a));
}

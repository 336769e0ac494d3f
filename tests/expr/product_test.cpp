// SPDX-License-Identifier: MIT
// One product, for every kind of operand and around every size at which the kernels change. Integer operands make the
// results exact.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>

#include <swiglu/expr/evaluate.hpp>

#include "support/build.hpp"
#include "support/operands.hpp"

using namespace swiglu;
using test::dynamic_tensor;
using test::layout;
using test::to_matrix;

namespace {

template <bool Transposed>
auto oriented(const auto& matrix) {
  if constexpr (Transposed)
    return transpose(matrix);
  else
    return impl::as_node(matrix);
}

/// to <<= product(a, b) for every `stride`-th shape, with operands of the given kinds.
template <class T, layout LeftIn, bool LeftTransposed, layout RightIn, bool RightTransposed>
void try_shapes(test::tally& cases, const test::exact_products<T>& exact, std::size_t first, std::size_t stride) {
  const test::operand_kind left_kind{LeftIn, LeftTransposed}, right_kind{RightIn, RightTransposed};
  scratch<T> memory;
  serial threads;
  test::each_shape(
      first, test::fast_build ? stride : 5 * stride, [&](std::size_t rows, std::size_t cols, std::size_t depth) {
        const test::stored<T> left(exact.left, rows, depth, left_kind), right(exact.right, depth, cols, right_kind);
        test::guarded<T> to(rows, cols, cols + 3, 1);
        const auto a = oriented<LeftTransposed>(left.template in_memory<LeftIn>());
        const auto b = oriented<RightTransposed>(right.template in_memory<RightIn>());
        evaluate(resources{memory, threads}, to.view() <<= product(a, b));
        cases(test::equal(to.view(), exact.expected(rows, cols, depth)), left_kind, "by", right_kind, rows, cols,
              depth);
        cases(to.intact(), left_kind, "by", right_kind, rows, cols, depth);
      });
}
template <class T, layout LeftIn, bool LeftTransposed>
void try_right_operands(test::tally& cases, const test::exact_products<T>& exact, std::size_t first,
                        std::size_t stride) {
  try_shapes<T, LeftIn, LeftTransposed, layout::rows, false>(cases, exact, first + 1, stride);
  try_shapes<T, LeftIn, LeftTransposed, layout::rows, true>(cases, exact, first + 2, stride);
  try_shapes<T, LeftIn, LeftTransposed, layout::whole, false>(cases, exact, first + 3, stride);
  try_shapes<T, LeftIn, LeftTransposed, layout::whole, true>(cases, exact, first + 4, stride);
  try_shapes<T, LeftIn, LeftTransposed, layout::first, false>(cases, exact, first + 5, stride);
  try_shapes<T, LeftIn, LeftTransposed, layout::second, true>(cases, exact, first + 6, stride);
}

}  // namespace

TEST_CASE("float: row-major by row-major, all shapes") {
  test::tally cases;
  try_shapes<float, layout::rows, false, layout::rows, false>(cases, test::exact_products<float>(), 0, 1);
  CHECK(cases);
}

TEST_CASE("float: row-major and panels, plain and transposed, by everything") {
  const test::exact_products<float> exact;
  test::tally cases;
  try_right_operands<float, layout::rows, false>(cases, exact, 0, 7);
  try_right_operands<float, layout::rows, true>(cases, exact, 1, 7);
  try_right_operands<float, layout::whole, false>(cases, exact, 2, 7);
  try_right_operands<float, layout::whole, true>(cases, exact, 3, 7);
  CHECK(cases);
}

TEST_CASE("float: halves of paired panels, plain and transposed, by everything") {
  const test::exact_products<float> exact;
  test::tally cases;
  try_right_operands<float, layout::second, false>(cases, exact, 0, 7);
  try_right_operands<float, layout::first, true>(cases, exact, 1, 7);
  CHECK(cases);
}

TEST_CASE("double: a choice of operands") {
  const test::exact_products<double> exact;
  test::tally cases;
  try_shapes<double, layout::rows, false, layout::rows, false>(cases, exact, 0, 1);
  try_shapes<double, layout::rows, true, layout::whole, true>(cases, exact, 1, 5);
  try_shapes<double, layout::whole, false, layout::rows, true>(cases, exact, 2, 5);
  try_shapes<double, layout::first, true, layout::second, false>(cases, exact, 3, 5);
  CHECK(cases);
}

TEST_CASE_TEMPLATE("real numbers: within the bound of a sum in some order", T, float, double) {
  test::tally cases;
  test::each_shape(0, 29, [&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const auto a = test::random_tensor<T>(rows, depth, 1), b = test::random_tensor<T>(depth, cols, 2);
    dynamic_tensor<T> to(rows, cols);
    evaluate(to <<= product(a, b));
    const auto x = to_matrix(a), y = to_matrix(b);
    cases(test::near(to, test::product(x, y), test::product_bound<T>(x, y)), rows, cols, depth);
  });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("every element is summed in ascending k, one multiply-add a step; sums run through their terms", T,
                   float, double) {
  test::tally cases;
  test::each_shape(0, 37, [&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const auto a = test::random_tensor<T>(rows, depth, 1), b = test::random_tensor<T>(depth, cols, 2);
    const auto c = test::random_tensor<T>(rows, 40, 3), d = test::random_tensor<T>(40, cols, 4);
    dynamic_tensor<T> to(rows, cols), sum(rows, cols);
    evaluate(to <<= product(a, b));
    evaluate(sum <<= product(a, b) + product(c, d));
    bool right = true;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) {
        T expected = 0;
        for (std::size_t k = 0; k < depth; ++k) expected = swiglu::fma(a(i, k), b(k, j), expected);
        right = right && test::same_bits(to(i, j), expected);
        for (std::size_t k = 0; k < 40; ++k) expected = swiglu::fma(c(i, k), d(k, j), expected);
        right = right && test::same_bits(sum(i, j), expected);
      }
    cases(right, rows, cols, depth);
  });
  CHECK(cases);
}

TEST_CASE("(a b)^T = b^T a^T, to the bit where the order of the sums is the same") {
  test::tally cases;
  test::each_shape(3, 41, [&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const auto a = test::random_tensor<float>(rows, depth, 1), b = test::random_tensor<float>(depth, cols, 2);
    dynamic_tensor<float> ab(rows, cols), transposed(cols, rows);
    evaluate(ab <<= product(a, b));
    evaluate(transposed <<= transpose(product(a, b)));
    cases(test::same_bits(test::transpose(to_matrix(transposed)), to_matrix(ab)), rows, cols, depth);
    evaluate(transposed <<= product(transpose(b), transpose(a)));
    cases(test::same_bits(test::transpose(to_matrix(transposed)), to_matrix(ab)), rows, cols, depth);
  });
  CHECK(cases);
}

TEST_CASE("a row of the product does not depend on the other rows, nor a column on the other columns") {
  const auto a = test::random_tensor<float>(33, 700, 1), b = test::random_tensor<float>(700, 65, 2);
  dynamic_tensor<float> whole(33, 65), part(33, 65);
  evaluate(whole <<= product(a, b));
  for (const std::size_t n : test::sizes{1, 5, 12, 13, 33}) {
    evaluate(part.view().row_block(0, n) <<= product(a.view().row_block(0, n), b));
    CHECK(test::same_bits(part.view().row_block(0, n), whole.view().row_block(0, n)));
  }
  for (const std::size_t n : test::sizes{1, 15, 16, 17, 33}) {
    evaluate(part.view().column_block(0, n) <<= product(a, b.view().column_block(0, n)));
    CHECK(test::same_bits(part.view().column_block(0, n), whole.view().column_block(0, n)));
  }
}

TEST_CASE("NaN and infinity reach exactly the elements that depend on them, whatever the depth") {
  for (const std::size_t depth : test::sizes{1, 33, 600})
    for (const float special : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      auto a = test::random_tensor<float>(14, depth, 1), b = test::random_tensor<float>(depth, 19, 2);
      dynamic_tensor<float> clean(14, 19), to(14, 19);
      evaluate(clean <<= product(a, b));
      a(5, depth - 1) = special;
      b(0, 17) = special;
      evaluate(to <<= product(a, b));
      bool right = true;
      for (std::size_t r = 0; r < 14; ++r)
        for (std::size_t c = 0; c < 19; ++c)
          right = right && (r == 5 || c == 17 ? !std::isfinite(to(r, c)) : test::same_bits(to(r, c), clean(r, c)));
      CHECK(right);
    }
}

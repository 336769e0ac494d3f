// SPDX-License-Identifier: MIT
// Whatever overlaps, an assignment gives what it gives through fresh copies of all that it reads.

#include <doctest/doctest.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include <swiglu/expr/evaluate.hpp>

#include "support/guarded.hpp"
#include "support/random.hpp"

using namespace swiglu;
using test::dynamic_tensor;
using matrix_view = view<float, dynamic, dynamic>;

namespace {

dynamic_tensor<float> copy_of(const view<const float, dynamic, dynamic>& v) {
  dynamic_tensor<float> copy(v.rows(), v.cols());
  for (std::size_t r = 0; r < v.rows(); ++r)
    for (std::size_t c = 0; c < v.cols(); ++c) copy(r, c) = v(r, c);
  return copy;
}

/// to <<= f(a) and to <<= f(copy of a), both from the same memory of rows x cols elements, of which `to_of` and `a_of`
/// take views. Everything outside of `to` has to stay as it was.
template <class To, class From, class F>
test::tally as_through_a_copy(std::size_t rows, std::size_t cols, To to_of, From a_of, F f) {
  test::guarded<float> memory(rows, cols, cols + 3), expected(rows, cols, cols + 3);
  test::fill(memory.view(), 1);
  test::fill(expected.view(), 1);
  const dynamic_tensor<float> a = copy_of(a_of(expected.view()));
  evaluate(noalias(to_of(expected.view())) <<= f(a));
  evaluate(to_of(memory.view()) <<= f(a_of(memory.view())));
  test::tally cases;
  cases(test::same_bits(memory.view(), expected.view()), "result");
  cases(memory.intact(), "around");
  return cases;
}

constexpr auto all = [](const matrix_view& m) { return m; };
auto block(std::size_t row, std::size_t rows, std::size_t col, std::size_t cols) {
  return [=](const matrix_view& m) { return m.row_block(row, rows).column_block(col, cols); };
}

}  // namespace

TEST_CASE("reading the element that is being written") {
  CHECK(as_through_a_copy(17, 33, all, all, [](const auto& a) { return silu(a) + a * 2; }));
  CHECK(as_through_a_copy(17, 33, block(3, 9, 5, 20), block(3, 9, 5, 20), [](const auto& a) { return 1 - a; }));
  dynamic_tensor<float> a = test::random_tensor<float>(5, 19, 1);
  const dynamic_tensor<float> before = a;
  scratch<float> none;
  serial one;
  evaluate(resources{none, one}, a <<= a + a);
  CHECK(a(4, 18) == 2 * before(4, 18));
  CHECK(none.bytes() == 0);
}

TEST_CASE("shifted views of one matrix: by rows, by columns, by both, in all directions") {
  const auto twice = [](const auto& a) { return a * 2; };
  for (const std::size_t r : test::sizes{0, 1, 2, 7})
    for (const std::size_t c : test::sizes{0, 1, 2, 15, 16, 17}) {
      CHECK(as_through_a_copy(40, 70, block(r, 33, c, 47), block(2, 33, 2, 47), twice));
      CHECK(as_through_a_copy(40, 70, block(2, 33, 2, 47), block(r, 33, c, 47), twice));
    }
  // One row and one column.
  CHECK(as_through_a_copy(1, 70, block(0, 1, 1, 40), block(0, 1, 0, 40), twice));
  CHECK(as_through_a_copy(40, 1, block(1, 30, 0, 1), block(0, 30, 0, 1), twice));
}

TEST_CASE("views of the same memory with another row pitch") {
  tensor<float, 10, 12> memory, expected;
  test::fill(memory, 1);
  test::fill(expected, 1);
  const auto wide = [](auto& t) { return matrix_view(t.data(), {5, 12}, 24); };
  const auto narrow = [](auto& t) { return matrix_view(t.data(), {5, 12}, 12); };
  const dynamic_tensor<float> a = copy_of(narrow(expected));
  evaluate(noalias(wide(expected)) <<= a * 2);
  evaluate(wide(memory) <<= narrow(memory) * 2);
  CHECK(test::same_bits(memory, expected));
}

TEST_CASE("a square transposed in place, alone and in formulas") {
  CHECK(as_through_a_copy(33, 33, all, all, [](const auto& a) { return transpose(a); }));
  CHECK(as_through_a_copy(33, 33, all, all, [](const auto& a) { return transpose(a) - silu(a); }));
  CHECK(
      as_through_a_copy(40, 40, block(1, 20, 3, 20), block(2, 20, 2, 20), [](const auto& a) { return transpose(a); }));
}

TEST_CASE("a row or a column of the destination, broadcast") {
  CHECK(as_through_a_copy(9, 33, all, block(4, 1, 0, 33), [](const auto& a) { return broadcast_row(a) + 1; }));
  CHECK(as_through_a_copy(9, 33, all, block(4, 1, 2, 9), [](const auto& a) { return broadcast_column(a) + 1; }));
}

TEST_CASE("a destination that is an operand of its own product") {
  const auto w = test::random_tensor<float>(33, 33, 2);
  CHECK(as_through_a_copy(33, 33, all, all, [&](const auto& a) { return product(a, w); }));
  CHECK(as_through_a_copy(33, 33, all, all, [&](const auto& a) { return product(w, a); }));
  CHECK(as_through_a_copy(33, 33, all, all, [](const auto& a) { return product(a, a); }));
  CHECK(as_through_a_copy(33, 33, all, all, [](const auto& a) { return product(transpose(a), a) + product(a, a); }));
  CHECK(as_through_a_copy(33, 33, all, all, [&](const auto& a) { return silu(product(a, w)) * a; }));
  CHECK(as_through_a_copy(40, 66, block(0, 20, 0, 30), block(10, 20, 3, 33),
                          [&](const auto& a) { return product(a, w.view().column_block(0, 30)); }));
}

TEST_CASE("accumulating into what is read") {
  tensor<float, 17, 17> a;
  test::fill(a, 1);
  const tensor<float, 17, 17> before = a;
  evaluate(accumulate(a) <<= transpose(a));
  bool right = true;
  for (std::size_t r = 0; r < 17; ++r)
    for (std::size_t c = 0; c < 17; ++c) right = right && test::same_bits(a(r, c), before(r, c) + before(c, r));
  CHECK(right);
}

TEST_CASE("swaps and rotations in one kernel: right-hand sides see the old values") {
  for (const std::size_t cols : test::sizes{1, 16, 33}) {
    auto a = test::random_tensor<float>(7, cols, 1), b = test::random_tensor<float>(7, cols, 2);
    auto c = test::random_tensor<float>(7, cols, 3);
    const auto a0 = a, b0 = b, c0 = c;
    evaluate(a <<= b, b <<= a);
    CHECK(test::same_bits(a, b0));
    CHECK(test::same_bits(b, a0));
    evaluate(a <<= c, b <<= a, c <<= b);
    CHECK(test::same_bits(a, c0));
    CHECK(test::same_bits(b, b0));
    CHECK(test::same_bits(c, a0));
  }
  // Each needs the transpose of the other.
  auto a = test::random_tensor<float>(20, 20, 1), b = test::random_tensor<float>(20, 20, 2);
  const auto a0 = a, b0 = b;
  dynamic_tensor<float> ta(20, 20), tb(20, 20);
  evaluate(ta <<= transpose(a0), tb <<= transpose(b0));
  evaluate(a <<= transpose(b), b <<= transpose(a));
  CHECK(test::same_bits(a, tb));
  CHECK(test::same_bits(b, ta));
  // One reads what the other writes, in a product.
  dynamic_tensor<float> h(20, 20), g(20, 20);
  evaluate(h <<= product(a, b), g <<= silu(a));
  evaluate(a <<= product(a, b), b <<= silu(a));
  CHECK(test::same_bits(a, h));
  CHECK(test::same_bits(b, g));
}

TEST_CASE("halves of one matrix are no overlap: neither of destinations nor with what is read") {
  for (const std::size_t rows : test::sizes{1, 2, 17})
    for (const std::size_t half : test::sizes{1, 5, 16, 33}) {
      auto both = test::random_tensor<float>(rows, 2 * half, 1);
      const auto before = both;
      const matrix_view left = both.view().column_block(0, half), right = both.view().column_block(half, half);
      scratch<float> none;
      serial one;
      CHECK_NOTHROW(evaluate(resources{none, one}, left <<= right, right <<= left));
      CHECK(test::same_bits(left, before.view().column_block(half, half)));
      CHECK(test::same_bits(right, before.view().column_block(0, half)));
      CHECK(none.bytes() == 0);

      auto stacked = test::random_tensor<float>(2 * rows, half, 2);
      const matrix_view upper = stacked.view().row_block(0, rows), lower = stacked.view().row_block(rows, rows);
      CHECK_NOTHROW(evaluate(upper <<= lower * 2, lower <<= upper * 3));
    }
  paired_panels<float> pair(5, 33);
  const auto a = test::random_tensor<float>(5, 33, 1);
  CHECK_NOTHROW(evaluate(pair.first() <<= a, pair.second() <<= a * 2));
  CHECK_NOTHROW(evaluate(pair.first() <<= pair.second(), pair.second() <<= pair.first()));
  CHECK(pair.first()(4, 32) == 2 * a(4, 32));
  CHECK(pair.second()(4, 32) == a(4, 32));
}

TEST_CASE("panels, too: a transposed square, an operand of its own product, a half of itself") {
  const auto a = test::random_tensor<float>(33, 33, 1), b = test::random_tensor<float>(33, 33, 2);
  test::guarded_panels<float> p(33, 33);
  test::guarded_panels<float, true> pair(33, 33);
  dynamic_tensor<float> expected(33, 33);
  evaluate(p.view() <<= a);
  evaluate(p.view() <<= transpose(p.view()));
  evaluate(expected <<= transpose(a));
  CHECK(test::same_bits(p.view(), expected));
  evaluate(p.view() <<= a);
  evaluate(p.view() <<= product(p.view(), p.view()));
  evaluate(expected <<= product(a, a));
  CHECK(test::same_bits(p.view(), expected));
  evaluate(pair.first() <<= a, pair.second() <<= b);
  evaluate(pair.first() <<= product(pair.first(), pair.second()), pair.second() <<= pair.first());
  evaluate(expected <<= product(a, b));
  CHECK(test::same_bits(pair.first(), expected));
  CHECK(test::same_bits(pair.second(), a));
  CHECK(p.padded());
  CHECK(pair.padded());
}

TEST_CASE("overlapping destinations are refused, by number, before anything is written") {
  auto a = test::random_tensor<float>(10, 20, 1);
  const auto before = a;
  const auto x = test::random_tensor<float>(8, 10, 2);
  const matrix_view one = a.view().row_block(0, 8).column_block(0, 10),
                    two = a.view().row_block(2, 8).column_block(9, 10);
  dynamic_tensor<float> other(8, 10), w(10, 10);
  CHECK_THROWS_WITH_AS(evaluate(one <<= x, two <<= x), "swiglu: evaluate: destinations 0 and 1 overlap",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(evaluate(one <<= x, other <<= x, two <<= x), "swiglu: evaluate: destinations 0 and 2 overlap",
                       std::invalid_argument);
  CHECK_THROWS_AS(evaluate(one <<= x, one <<= x), std::invalid_argument);
  CHECK_THROWS_AS(evaluate(noalias(one) <<= x, noalias(one) <<= x), std::invalid_argument);
  CHECK_THROWS_AS(evaluate(one <<= product(x, w), accumulate(one) <<= x), std::invalid_argument);
  CHECK(test::same_bits(a, before));
  CHECK(test::equal(other, dynamic_tensor<float>(8, 10)));
}

TEST_CASE("noalias is taken at its word: no test, no temporary") {
  scratch<float> none;
  serial one;
  auto a = test::random_tensor<float>(4, 40, 1);
  const auto before = a;
  // Rows are written in ascending order, so that this shift is right without a copy.
  evaluate(resources{none, one}, noalias(a.view().row_block(0, 3)) <<= a.view().row_block(1, 3));
  for (std::size_t r = 0; r < 3; ++r)
    CHECK(test::same_bits(a.view().row_block(r, 1), before.view().row_block(r + 1, 1)));
  auto b = test::random_tensor<float>(4, 40, 2);
  evaluate(noalias(accumulate(b)) <<= a, accumulate(noalias(a)) <<= 1);
  CHECK(a(0, 0) == before(1, 0) + 1);
}

// SPDX-License-Identifier: MIT
// Panels, and the halves of paired panels, as sources and as destinations. What is zero stays zero: the padding.

#include <doctest/doctest.h>

#include <array>
#include <cstddef>

#include <swiglu/expr/evaluate.hpp>

#include "support/guarded.hpp"
#include "support/random.hpp"

using namespace swiglu;
using test::dynamic_tensor;
using test::guarded;
using test::guarded_panels;
using test::to_matrix;

namespace {

template <class F>
void each_size(F f) {
  for (const std::size_t rows : test::sizes{0, 1, 2, 17, 33})
    for (const std::size_t cols : test::sizes{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65})
      f(rows, cols);
}

}  // namespace

TEST_CASE_TEMPLATE("row-major to panels and back is the identity, also for the halves", T, float, double) {
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    guarded<T> a(rows, cols, cols + 1, 1), b(rows, cols), back(rows, cols, cols + 2, 1);
    test::fill(a.view(), 1);
    test::fill(b.view(), 2);
    guarded_panels<T> whole(rows, cols);
    guarded_panels<T, true> pair(rows, cols);
    evaluate(whole.view() <<= a.view());
    evaluate(pair.first() <<= a.view());
    evaluate(pair.second() <<= b.view());
    cases(test::same_bits(whole.view(), a.view()), rows, cols);
    cases(test::same_bits(pair.first(), a.view()), "first", rows, cols);
    cases(test::same_bits(pair.second(), b.view()), "second", rows, cols);
    cases(whole.padded() && pair.padded(), "padding", rows, cols);
    cases(whole.intact() && pair.intact(), "around", rows, cols);

    evaluate(back.view() <<= whole.view());
    cases(test::same_bits(back.view(), a.view()) && back.intact(), "back", rows, cols);
    evaluate(back.view() <<= pair.second());
    cases(test::same_bits(back.view(), b.view()) && back.intact(), "back from second", rows, cols);
  });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("formulas between all layouts; functions of 0 that are not 0 leave the padding alone", T, float,
                   double) {
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    guarded<T> a(rows, cols, cols + 1, 1), to(rows, cols);
    dynamic_tensor<T> expected(rows, cols);
    guarded_panels<T> p(rows, cols), whole(rows, cols);
    guarded_panels<T, true> q(rows, cols), pair(rows, cols);
    test::fill(a.view(), 1);
    test::fill(p.view(), 2);
    test::fill(q.first(), 3);
    test::fill(q.second(), 4, 1, 2);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c)
        expected(r, c) = 1 - (a.view()(r, c) + p.view()(r, c)) / q.second()(r, c) - q.first()(r, c);
    const auto formula = 1 - (a.view() + p.view()) / q.second() - q.first();
    evaluate(to.view() <<= formula, whole.view() <<= formula, pair.first() <<= formula, pair.second() <<= formula);
    cases(test::same_bits(to.view(), expected), rows, cols);
    cases(test::same_bits(whole.view(), expected), "whole", rows, cols);
    cases(test::same_bits(pair.first(), expected), "first", rows, cols);
    cases(test::same_bits(pair.second(), expected), "second", rows, cols);
    cases(whole.padded() && pair.padded(), "padding", rows, cols);
    cases(to.intact() && whole.intact() && pair.intact(), "around", rows, cols);

    // A formula without an operand in panels, and one number.
    evaluate(whole.view() <<= sigmoid(a.view()), pair.second() <<= 1);
    cases(whole.padded() && pair.padded(), "padding", rows, cols);
    cases(test::same_bits(pair.first(), expected), "the other half", rows, cols);
  });
  CHECK(cases);
}

TEST_CASE("accumulate into panels") {
  using T = float;
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    dynamic_tensor<T> a = test::random_tensor<T>(rows, cols, 1), twice(rows, cols);
    guarded_panels<T> whole(rows, cols);
    guarded_panels<T, true> pair(rows, cols);
    for (int i = 0; i < 2; ++i) {
      evaluate(accumulate(whole.view()) <<= a, accumulate(pair.first()) <<= 1);
      evaluate(accumulate(pair.second()) <<= a + 0);
    }
    evaluate(twice <<= a + a);
    cases(test::same_bits(whole.view(), twice), rows, cols);
    cases(test::same_bits(pair.second(), twice), rows, cols);
    cases(test::equal(pair.first(), test::generate(rows, cols, [](std::size_t, std::size_t) { return 2; })), rows,
          cols);
    cases(whole.padded() && pair.padded(), "padding", rows, cols);
  });
  CHECK(cases);
}

TEST_CASE("panels whose padding holds old numbers are clean after one assignment") {
  using T = float;
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    if (cols == 0) return;
    panels<T> p(40, cols);
    p.set_rows(40);
    for (std::size_t i = 0; i < p.bytes() / sizeof(T); ++i) p.view().data()[i] = 7;
    p.set_rows(rows);
    const auto a = test::random_tensor<T>(rows, cols, 1);
    evaluate(p <<= a);
    bool clean = true;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = cols; c < round_up(cols, strip_columns<T>); ++c) clean = clean && *p.view().at(r, c) == 0;
    cases(clean, rows, cols);
    cases(test::same_bits(p.view(), a), rows, cols);
  });
  CHECK(cases);
}

TEST_CASE("transposes of panels and of halves") {
  using T = float;
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    guarded_panels<T> whole(rows, cols), to(cols, rows);
    guarded_panels<T, true> pair(rows, cols);
    guarded<T> sum(cols, rows, rows + 1, 1);
    test::fill(whole.view(), 1);
    test::fill(pair.first(), 2);
    test::fill(pair.second(), 3);
    evaluate(to.view() <<= transpose(whole.view()));
    cases(test::same_bits(test::transpose(to_matrix(to.view())), to_matrix(whole.view())), rows, cols);
    cases(to.padded() && to.intact(), rows, cols);
    evaluate(sum.view() <<= transpose(pair.first() + whole.view()) - transpose(pair.second()));
    bool right = true;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c)
        right =
            right && test::same_bits(sum.view()(c, r), pair.first()(r, c) + whole.view()(r, c) - pair.second()(r, c));
    cases(right, "sum", rows, cols);
    cases(sum.intact(), rows, cols);
  });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("one row of panels, or of a half, as every row and every column", T, float, double) {
  test::tally cases;
  for (const std::size_t cols : test::sizes{1, 7, 15, 16, 17, 33, 65}) {
    guarded_panels<T> whole(1, cols);
    guarded_panels<T, true> pair(1, cols);
    test::fill(whole.view(), 1);
    test::fill(pair.first(), 2);
    test::fill(pair.second(), 3);
    dynamic_tensor<T> to(3, cols), down(cols, 3);
    const auto check = [&](auto vector, const char* name) {
      evaluate(to <<= broadcast_row(vector));
      evaluate(down <<= broadcast_column(vector));
      bool right = true;
      for (std::size_t r = 0; r < 3; ++r)
        for (std::size_t c = 0; c < cols; ++c) right = right && to(r, c) == vector(0, c) && down(c, r) == vector(0, c);
      cases(right, name, cols);
    };
    check(whole.view(), "whole");
    check(pair.first(), "first half");
    check(pair.second(), "second half");
  }
  CHECK(cases);
}

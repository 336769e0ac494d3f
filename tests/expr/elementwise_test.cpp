// SPDX-License-Identifier: MIT
// Elementwise kernels are what the same formula gives for every element by itself.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include <swiglu/expr/evaluate.hpp>

#include "support/guarded.hpp"
#include "support/random.hpp"

using namespace swiglu;
using test::dynamic_tensor;
using test::guarded;
using test::to_matrix;

namespace {

constexpr std::array<std::size_t, 7> row_counts{0, 1, 2, 15, 16, 17, 33};
constexpr std::array<std::size_t, 14> column_counts{0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 65};

template <class F>
void each_size(F f) {
  for (const std::size_t rows : row_counts)
    for (const std::size_t cols : column_counts) f(rows, cols);
}

/// Two matrices and a destination in guarded, pitched, unaligned memory.
template <class T>
struct operands {
  guarded<T> a, b, to;
  operands(std::size_t rows, std::size_t cols)
      : a(rows, cols, cols + 3, 1), b(rows, cols), to(rows, cols, cols + 5, 2) {
    test::fill(a.view(), 1, -4, 4);
    test::fill(b.view(), 2, 0.5, 4);
  }
};

/// f of numbers, as the lanes of packs.
template <class T, class F>
T in_packs(F f, T x, T y) {
  T lanes[pack<T>::size];
  f(pack<T>(x), pack<T>(y)).store(lanes);
  return lanes[0];
}

/// The kernel to <<= f(a, b) gives expected(f, x, y) for every element, to the bit, and leaves its surroundings alone.
template <class T, class F, class Expected>
test::tally agrees(F f, Expected expected_element) {
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    operands<T> o(rows, cols);
    const auto a = o.a.view(), b = o.b.view(), to = o.to.view();
    evaluate(to <<= f(a, b));
    dynamic_tensor<T> expected(rows, cols);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) expected(r, c) = expected_element(f, a(r, c), b(r, c));
    cases(test::same_bits(to, expected), rows, cols);
    cases(o.to.intact(), rows, cols);
  });
  return cases;
}
/// ... what the formula gives for two numbers.
template <class T, class F>
test::tally agrees(F f) {
  return agrees<T>(f, [](F g, T x, T y) { return static_cast<T>(g(x, y)); });
}
/// ... what it gives for two packs.
template <class T, class F>
test::tally agrees_with_packs(F f) {
  return agrees<T>(f, [](F g, T x, T y) { return in_packs<T>(g, x, y); });
}

}  // namespace

TEST_CASE_TEMPLATE("arithmetic of matrices", T, float, double) {
  CHECK(agrees<T>([](auto a, auto b) { return a + b; }));
  CHECK(agrees<T>([](auto a, auto b) { return a - b; }));
  CHECK(agrees<T>([](auto a, auto b) { return a * b; }));
  CHECK(agrees<T>([](auto a, auto b) { return a / b; }));
  CHECK(agrees<T>([](auto a, auto) { return -a; }));
}

TEST_CASE("numbers on the left and on the right, of any arithmetic type") {
  using T = float;
  CHECK(agrees<T>([](auto a, auto) { return a + T(1.25); }));
  CHECK(agrees<T>([](auto a, auto) { return T(1.25) - a; }));
  CHECK(agrees<T>([](auto a, auto) { return a * 3; }));
  CHECK(agrees<T>([](auto, auto b) { return 1 / b; }));
  CHECK(agrees<T>([](auto a, auto) { return a - 0.5f; }));
  // A number takes the type of the matrix beside it.
  const dynamic_tensor<float> a(1, 1);
  dynamic_tensor<float> to(1, 1);
  evaluate(to <<= a + 0.1);
  CHECK(to(0, 0) == 0.1f);
}

TEST_CASE_TEMPLATE("sigmoid, silu and silu' of matrices are those of packs", T, float, double) {
  CHECK(agrees_with_packs<T>([](auto a, auto) { return sigmoid(a); }));
  CHECK(agrees_with_packs<T>([](auto a, auto) { return silu(a); }));
  CHECK(agrees_with_packs<T>([](auto a, auto) { return silu_grad(a); }));
  CHECK(agrees_with_packs<T>([](auto a, auto b) { return silu(a) * b; }));
}

TEST_CASE("a number as the whole right-hand side") {
  using T = float;
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    guarded<T> to(rows, cols, cols + 1, 1);
    evaluate(to.view() <<= 3);
    cases(test::equal(to.view(), test::generate(rows, cols, [](std::size_t, std::size_t) { return 3; })), rows, cols);
    cases(to.intact(), rows, cols);
  });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("a longer formula, with everything in it", T, float, double) {
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    operands<T> o(rows, cols);
    guarded<T> row(1, cols, 0, 1), column(1, rows, 0, 1);
    test::fill(row.view(), 3);
    test::fill(column.view(), 4);
    const auto a = o.a.view(), b = o.b.view(), to = o.to.view();
    const auto clamp = [](auto x) { return at_most(at_least(x, decltype(x)(T(-1))), decltype(x)(T(1))); };
    evaluate(to <<= silu(a * broadcast_row(row.view()) + 1) / b - broadcast_column(column.view()) * map(clamp, -a));
    const auto expected = test::generate(rows, cols, [&](std::size_t r, std::size_t c) {
      const double x = a(r, c), y = b(r, c), p = row.view()(0, c), q = column.view()(0, r);
      return test::silu(x * p + 1) / y - q * std::min(std::max(-x, -1.0), 1.0);
    });
    const auto magnitude = test::generate(rows, cols, [](std::size_t, std::size_t) { return 16; });
    cases(test::near(to, expected, static_cast<double>(std::numeric_limits<T>::epsilon()) * magnitude), rows, cols);
    cases(o.to.intact(), rows, cols);
  });
  CHECK(cases);
}

TEST_CASE("a row and a column for every row and column: vectors and one-row matrices") {
  using T = float;
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    guarded<T> row(1, cols, 0, 1), column(1, rows, 0, 1), sum(rows, cols), alone(rows, cols, cols + 1);
    test::fill(row.view(), 3);
    test::fill(column.view(), 4);
    const view<const T, dynamic> vector(row.data(), {cols});
    evaluate(sum.view() <<= broadcast_row(vector) + broadcast_column(column.view()));
    evaluate(alone.view() <<= broadcast_row(row.view()));
    bool right = true;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) {
        right = right && test::same_bits(sum.view()(r, c), vector(c) + column.view()(0, r));
        right = right && test::same_bits(alone.view()(r, c), vector(c));
      }
    cases(right, rows, cols);
    cases(sum.intact(), rows, cols);
    cases(alone.intact(), rows, cols);
  });
  CHECK(cases);
}

TEST_CASE("map: functions of one to three arguments, with and without state") {
  using T = float;
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    operands<T> o(rows, cols);
    guarded<T> c(rows, cols);
    test::fill(c.view(), 3);
    const auto a = o.a.view(), b = o.b.view(), to = o.to.view();
    evaluate(to <<= map([](auto x, auto y, auto z) { return if_negative(x, y, z); }, a, b, c.view()));
    bool right = true;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) right = right && to(i, j) == (a(i, j) < 0 ? b(i, j) : c.view()(i, j));
    for (const int limit : {-1, 0, 2}) {
      evaluate(to <<= map([limit](auto x) { return at_most(x, decltype(x)(static_cast<T>(limit))); }, a));
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < cols; ++j) right = right && to(i, j) == std::min(a(i, j), static_cast<T>(limit));
    }
    cases(right, rows, cols);
    cases(o.to.intact(), rows, cols);
  });
  CHECK(cases);
}

TEST_CASE("transposes: of matrices, of formulas, and twice") {
  using T = float;
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    operands<T> o(rows, cols), t(cols, rows);
    guarded<T> row(1, cols, 0, 1);
    test::fill(row.view(), 3);
    const auto a = o.a.view(), b = o.b.view();
    evaluate(t.to.view() <<= transpose(a));
    cases(test::same_bits(test::transpose(to_matrix(t.to.view())), to_matrix(a)), rows, cols);
    cases(t.to.intact(), rows, cols);
    evaluate(t.to.view() <<= transpose(silu(a) * b - broadcast_row(row.view())));
    evaluate(o.to.view() <<= silu(a) * b - broadcast_row(row.view()));
    cases(test::same_bits(test::transpose(to_matrix(t.to.view())), to_matrix(o.to.view())), "formula", rows, cols);
    cases(t.to.intact(), rows, cols);
    evaluate(o.to.view() <<= transpose(transpose(a)) + transpose(t.a.view()));
    bool right = true;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c)
        right = right && test::same_bits(o.to.view()(r, c), a(r, c) + t.a.view()(c, r));
    cases(right, "twice", rows, cols);
    cases(o.to.intact(), rows, cols);
  });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("accumulate adds to what is there, for elements and no others", T, float, double) {
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    operands<T> o(rows, cols);
    const auto a = o.a.view(), b = o.b.view(), to = o.to.view();
    test::fill(to, 5);
    const dynamic_tensor<T> before = [&] {
      dynamic_tensor<T> copy(rows, cols);
      evaluate(copy <<= to);
      return copy;
    }();
    evaluate(accumulate(to) <<= a + b);
    bool right = true;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c)
        right = right && test::same_bits(to(r, c), before(r, c) + (a(r, c) + b(r, c)));
    cases(right, rows, cols);
    cases(o.to.intact(), rows, cols);
  });
  CHECK(cases);
}

TEST_CASE("several assignments in one kernel are those of several kernels") {
  using T = float;
  test::tally cases;
  each_size([&](std::size_t rows, std::size_t cols) {
    operands<T> o(rows, cols);
    guarded<T> second(rows, cols), third(rows, cols, cols + 1);
    test::fill(third.view(), 6);
    dynamic_tensor<T> sum(rows, cols), difference(rows, cols), total(rows, cols);
    evaluate(total <<= third.view());
    const auto a = o.a.view(), b = o.b.view();
    evaluate(o.to.view() <<= a + b, noalias(second.view()) <<= a - b, accumulate(third.view()) <<= a);
    evaluate(sum <<= a + b);
    evaluate(difference <<= a - b);
    evaluate(accumulate(total) <<= a);
    cases(test::same_bits(o.to.view(), sum), rows, cols);
    cases(test::same_bits(second.view(), difference), rows, cols);
    cases(test::same_bits(third.view(), total), rows, cols);
    cases(o.to.intact() && second.intact() && third.intact(), rows, cols);
  });
  CHECK(cases);
}

TEST_CASE("tensors of any rank are matrices of their collapsed rows") {
  tensor<float, 2, 3, 5> cube;
  tensor<float, dynamic, 2, 1, 5> four(3);
  tensor<float, 6, 5> matrix, sum;
  tensor<float, 5> vector;
  test::fill(cube, 1);
  test::fill(four, 2);
  test::fill(matrix, 3);
  test::fill(vector, 4);
  evaluate(sum <<= map([](auto x, auto y, auto z) { return if_negative(x, y, z); }, cube, four, matrix));
  for (std::size_t i = 0; i < 30; ++i) CHECK(sum.data()[i] == (cube.data()[i] < 0 ? four.data()[i] : matrix.data()[i]));
  evaluate(cube <<= sum + broadcast_row(vector));
  for (std::size_t i = 0; i < 30; ++i) CHECK(cube.data()[i] == sum.data()[i] + vector(i % 5));
  const view<const float, dynamic, 5> halves = cube.view().row_block(3, 3);
  tensor<float, 3, 5> part;
  evaluate(part <<= halves);
  CHECK(test::same_bits(part, halves));
}

TEST_CASE("const tensors, views of them, and expressions kept for later") {
  const dynamic_tensor<float> a = test::random_tensor<float>(3, 17, 1);
  dynamic_tensor<float> b = test::random_tensor<float>(3, 17, 2), to(3, 17);
  const auto sum = a + b.view();
  const auto twice = 2 * sum;
  evaluate(to <<= twice);
  CHECK(to(2, 16) == 2 * (a(2, 16) + b(2, 16)));
  b(2, 16) = 7;  // an expression reads when it is evaluated
  evaluate(to <<= twice);
  CHECK(to(2, 16) == 2 * (a(2, 16) + 7));
}

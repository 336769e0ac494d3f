// SPDX-License-Identifier: MIT
// Kernels on small matrices of static shape, which run without panels: they agree with the mathematics and, where the
// order of a sum is the same, to the bit with the kernels of run-time shape.

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include <swiglu/expr/evaluate.hpp>

#include "support/operands.hpp"
#include "support/thread_executor.hpp"

using namespace swiglu;
using test::dynamic_tensor;
using test::same_bits;
using test::to_matrix;

namespace {

template <class T>
using any_const = view<const T, dynamic, dynamic>;

/// A static matrix in guarded memory with `gap` elements between its rows.
template <class T, std::size_t Rows, std::size_t Cols>
struct matrix_of {
  test::guarded<T> memory;
  explicit matrix_of(std::size_t gap = 0) : memory(Rows, Cols, Cols + gap, gap == 0 ? 0 : 1) {}
  view<T, Rows, Cols> fixed() { return memory.view(); }
  any_const<T> loose() { return memory.view(); }
};

/// The shapes: rows, columns, depth.
template <std::size_t M, std::size_t N, std::size_t K>
struct shape {
  static constexpr std::size_t rows = M, cols = N, depth = K;
};

template <class Expression>
constexpr bool direct = impl::runs_direct<impl::kernel_plan<true, Expression>>;

template <class T, class S, class F>
void with_operands(F f) {
  for (const std::size_t gap : {0U, 3U}) {
    matrix_of<T, S::rows, S::depth> x(gap);
    matrix_of<T, S::depth, S::rows> xt(gap);
    matrix_of<T, S::depth, S::cols> w(gap), u(gap);
    matrix_of<T, S::cols, S::depth> wt(gap);
    test::fill(x.fixed(), 1), test::fill(w.fixed(), 2), test::fill(u.fixed(), 3);
    test::fill(xt.fixed(), 4), test::fill(wt.fixed(), 5);
    f(gap, x, xt, w, u, wt);
  }
}

template <class T, class S>
void check(test::tally& cases) {
  with_operands<T, S>([&](std::size_t gap, auto& x, auto& xt, auto& w, auto& u, auto& wt) {
    matrix_of<T, S::rows, S::cols> a(gap), b(gap), c(gap);
    dynamic_tensor<T> da(S::rows, S::cols), db(S::rows, S::cols), dc(S::rows, S::cols);
    const auto all = [&](const char* what) {
      cases(same_bits(a.fixed(), da), what, "first", S::rows, S::cols, S::depth, gap);
      cases(same_bits(b.fixed(), db), what, "second", S::rows, S::cols, S::depth, gap);
      cases(same_bits(c.fixed(), dc), what, "third", S::rows, S::cols, S::depth, gap);
      cases(a.memory.intact() && b.memory.intact() && c.memory.intact(), what, S::rows, S::cols, S::depth, gap);
    };
    static_assert(direct<decltype(product(x.fixed(), w.fixed()))>);
    static_assert(!direct<decltype(product(x.loose(), w.loose()))>);

    evaluate(a.fixed() <<= product(x.fixed(), w.fixed()));
    evaluate(da <<= product(x.loose(), w.loose()));
    evaluate(b.fixed() <<= product(x.fixed(), transpose(wt.fixed())));
    evaluate(db <<= product(x.loose(), transpose(wt.loose())));
    evaluate(c.fixed() <<= product(transpose(xt.fixed()), w.fixed()));
    evaluate(dc <<= product(transpose(xt.loose()), w.loose()));
    all("one product");

    evaluate(a.fixed() <<= product(transpose(xt.fixed()), transpose(wt.fixed())) * 2);
    evaluate(da <<= product(transpose(xt.loose()), transpose(wt.loose())) * 2);
    evaluate(accumulate(b.fixed()) <<= product(x.fixed(), w.fixed()));
    evaluate(accumulate(db) <<= product(x.loose(), w.loose()));
    evaluate(c.fixed() <<= product(x.fixed(), w.fixed()) + product(transpose(xt.fixed()), u.fixed()));
    evaluate(dc <<= product(x.loose(), w.loose()) + product(transpose(xt.loose()), u.loose()));
    all("transposes, accumulation, a sum of products");

    evaluate(a.fixed() <<= silu(product<"g">(x.fixed(), w.fixed())), b.fixed() <<= product<"u">(x.fixed(), u.fixed()),
             c.fixed() <<= silu_grad(product<"g">(x.fixed(), w.fixed())) * product<"u">(x.fixed(), u.fixed()));
    evaluate(da <<= silu(product<"g">(x.loose(), w.loose())), db <<= product<"u">(x.loose(), u.loose()),
             dc <<= silu_grad(product<"g">(x.loose(), w.loose())) * product<"u">(x.loose(), u.loose()));
    all("two products of one left operand");

    evaluate(a.fixed() <<= product(x.fixed(), w.fixed()), b.fixed() <<= product(transpose(xt.fixed()), u.fixed()),
             c.fixed() <<= product(x.fixed(), transpose(wt.fixed())));
    evaluate(da <<= product(x.loose(), w.loose()), db <<= product(transpose(xt.loose()), u.loose()),
             dc <<= product(x.loose(), transpose(wt.loose())));
    all("products of different left operands");
  });
}

}  // namespace

TEST_CASE("the same bits as kernels of run-time shape") {
  test::tally cases;
  check<float, shape<16, 16, 16>>(cases);
  check<float, shape<13, 33, 17>>(cases);
  check<double, shape<5, 7, 40>>(cases);
  CHECK(cases);
}

TEST_CASE("any number of threads changes no bit") {
  tensor<float, 20, 30> x;
  tensor<float, 30, 150> w, u;
  tensor<float, 20, 150> one, many;
  test::fill(x, 1), test::fill(w, 2), test::fill(u, 3);
  evaluate(one <<= silu(product(x, w)) * product(x, u));
  for (const std::size_t threads : {1U, 2U, 3U, 8U}) {
    scratch<float> memory;
    test::thread_executor executor(threads);
    test::fill_with(many, [] { return -1.0f; });
    evaluate(resources{memory, executor}, many <<= silu(product(x, w)) * product(x, u));
    CHECK(same_bits(one, many));
  }
}

TEST_CASE("different left operands of one type, and a single element") {
  tensor<float, 5, 9> x, y;
  tensor<float, 9, 20> w;
  tensor<float, 5, 20> a, b, c, d;
  test::fill(x, 1), test::fill(y, 2), test::fill(w, 3);
  evaluate(a <<= product(x, w), b <<= product(y, w));
  evaluate(c <<= product(x, w));
  evaluate(d <<= product(y, w));
  CHECK(same_bits(a, c));
  CHECK(same_bits(b, d));

  tensor<float, 1, 1> p, q, r;
  p(0, 0) = 3, q(0, 0) = 5;
  evaluate(r <<= product(p, q));
  CHECK(r(0, 0) == 15);
}

TEST_CASE("sums of different lengths in one kernel") {
  tensor<float, 5, 9> x, y;
  tensor<float, 9, 20> w, v;
  tensor<float, 5, 20> a, b, c, d;
  test::fill(x, 1), test::fill(y, 2), test::fill(w, 3), test::fill(v, 4);
  evaluate(c <<= product(x, w) + product(y, v));
  evaluate(d <<= product(x, w));
  evaluate(a <<= product(x, w) + product(y, v), b <<= product<"p">(x, w));
  CHECK(same_bits(a, c));
  CHECK(same_bits(b, d));
  evaluate(b <<= product<"p">(x, w), a <<= product(x, w) + product(y, v));
  CHECK(same_bits(a, c));
  CHECK(same_bits(b, d));
}

TEST_CASE("one name for different operands") {
  tensor<float, 4, 4> x, y, w, a, b;
  CHECK_THROWS_WITH_AS(evaluate(a <<= product<"p">(x, w), b <<= product<"p">(y, w)),
                       "swiglu: evaluate: two products named \"p\" have different operands", std::invalid_argument);
}

TEST_CASE("a destination that is an operand") {
  tensor<float, 12, 12> x, w, expected;
  test::fill(x, 1), test::fill(w, 2);
  evaluate(expected <<= product(transpose(x), w));
  evaluate(x <<= product(transpose(x), w));
  CHECK(same_bits(x, expected));
}

TEST_CASE("static shapes without elements") {
  tensor<float, 3, 0> x;
  tensor<float, 0, 5> w;
  tensor<float, 3, 5> a;
  test::fill_with(a, [] { return 7.0f; });
  evaluate(a <<= product(x, w));
  CHECK(a(2, 4) == 0);
  tensor<float, 0, 4> none, to;
  tensor<float, 4, 4> square;
  evaluate(to <<= product(none, square));
}

TEST_CASE("what is too large for the cache runs in panels") {
  tensor<float, 512, 600> x;
  tensor<float, 600, 700> w;
  static_assert(!direct<decltype(product(x, w))>);
}

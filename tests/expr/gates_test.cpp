// SPDX-License-Identifier: MIT
// Gates share a sigmoid if, and only if, they have the same argument: the same kernel written with one assignment at a
// time, where there is nothing to share, gives the same bits.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>

#include "gates.hpp"

using namespace gate_test;

TEST_CASE_TEMPLATE("gates of one argument", T, float, double) {
  const inputs<T> in;
  CHECK(separately<T>(silu(in.a), sigmoid(in.a), silu_grad(in.a)));
  CHECK(separately<T>(silu(in.a) * in.b, in.c * silu_grad(in.a)));
  // A product, since a compiler may contract the last multiplication of silu with a sum.
  dynamic_tensor<T> both(rows, cols), expected(rows, cols);
  evaluate(both <<= silu(in.a) * silu_grad(in.a));
  const auto f = alone<T>(silu(in.a)), g = alone<T>(silu_grad(in.a));
  evaluate(expected <<= f * g);
  CHECK(test::same_bits(both, expected));
}

TEST_CASE_TEMPLATE("gates of different tensors of one type", T, float, double) {
  const inputs<T> in;
  CHECK(separately<T>(silu(in.a), silu(in.b)));
  CHECK(separately<T>(silu(in.a), silu_grad(in.a), silu(in.b)));
  CHECK(separately<T>(silu(in.b), silu(in.a), silu_grad(in.b)));
}

TEST_CASE("gates of views that begin alike") {
  using T = float;
  dynamic_tensor<T> a = test::random_tensor<T>(2 * rows, 2 * cols, 1);
  const auto full = a.view();
  // The same first element with another pitch; another first element with the same pitch.
  const view<T, dynamic, dynamic> near(a.data(), {rows, cols}, cols), far(a.data(), {rows, cols}, 2 * cols);
  CHECK(separately<T>(silu(near), silu(far)));
  CHECK(separately<T>(silu(far), silu_grad(full.column_block(1, cols).row_block(0, rows))));
  const view<const T, dynamic, dynamic> left = a.view().row_block(0, rows).column_block(0, cols);
  const view<const T, dynamic, dynamic> right = a.view().row_block(0, rows).column_block(cols, cols);
  CHECK(separately<T>(silu(left), silu_grad(right), sigmoid(left)));
}

TEST_CASE("gates of broadcast vectors") {
  using T = float;
  const inputs<T> in;
  const auto u = test::random_tensor<T>(1, cols, 7), v = test::random_tensor<T>(1, cols, 8);
  CHECK(separately<T>(silu(broadcast_row(u)), silu_grad(broadcast_row(u)) * in.a));
  CHECK(separately<T>(silu(broadcast_row(u)), silu_grad(broadcast_row(v))));
}

TEST_CASE("special values go through every register and its remainder") {
  using T = float;
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  for (std::size_t at = 0; at < cols; ++at)
    for (const T special :
         {infinity, -infinity, nan, std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest()}) {
      dynamic_tensor<T> a(1, cols), h(1, cols), g(1, cols), s(1, cols);
      a(0, at) = special;
      evaluate(h <<= silu(a), g <<= silu_grad(a), s <<= sigmoid(a));
      bool right = true;
      for (std::size_t c = 0; c < cols; ++c) {
        const T x = a(0, c);
        const auto same = [](T y, T z) { return test::same_bits(y, z) || (std::isnan(y) && std::isnan(z)); };
        const auto lane = [](const pack<T>& v) {
          T lanes[pack<T>::size];
          v.store(lanes);
          return lanes[0];
        };
        const pack<T> v(x);
        right = right && same(h(0, c), lane(silu(v))) && same(g(0, c), lane(silu_grad(v)));
        right = right && same(s(0, c), lane(sigmoid(v)));
        right = right && (c == at ? std::isnan(h(0, c)) == std::isnan(special) : h(0, c) == 0);
      }
      CHECK(right);
    }
}

// SPDX-License-Identifier: MIT

#include <doctest/doctest.h>

#include <algorithm>
#include <new>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <swiglu/panels.hpp>

#include "support/guarded.hpp"
#include "support/random.hpp"

using namespace swiglu;

static_assert(strip_columns<float> == 2 * pack<float>::size && strip_columns<double> == 2 * pack<double>::size);
static_assert(
    std::is_convertible_v<panel_view<float, strip_columns<float>>, panel_view<const float, strip_columns<float>>>);
static_assert(
    !std::is_convertible_v<panel_view<const float, strip_columns<float>>, panel_view<float, strip_columns<float>>>);

TEST_CASE_TEMPLATE("element (r, c) lies where the formula at the top of panels.hpp says", T, float, double) {
  constexpr std::size_t p = strip_columns<T>;
  for (const std::size_t rows : test::sizes{1, 2, 5})
    for (std::size_t cols = 1; cols <= 3 * p + 1; ++cols) {
      panels<T> whole(rows, cols);
      const auto v = whole.view();
      REQUIRE(v.rows() == rows);
      REQUIRE(v.cols() == cols);
      REQUIRE(whole.bytes() == ceil_div(cols, p) * p * (rows | 1) * sizeof(T));
      bool right = true;
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < cols; ++c)
          right = right && &v(r, c) == v.data() + (c / p) * v.strip_stride() + r * p + c % p;
      CHECK(right);

      paired_panels<T> pair(rows, cols);
      std::set<const T*> seen;
      for (const auto& half : {pair.first(), pair.second()})
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t c = 0; c < cols; ++c) seen.insert(&half(r, c));
      CHECK(seen.size() == 2 * rows * cols);
      CHECK(pair.second().data() == pair.first().data() + p / 2);
      CHECK(*seen.rbegin() - pair.first().data() < static_cast<std::ptrdiff_t>(pair.bytes() / sizeof(T)));
    }
}

TEST_CASE_TEMPLATE("more elements than can be counted are refused, whichever extent or padding is too much", M,
                   panels<float>, panels<double>, paired_panels<float>, paired_panels<double>) {
  constexpr std::size_t most = static_cast<std::size_t>(-1);
  CHECK_THROWS_AS(M(most, 2), std::length_error);
  CHECK_THROWS_AS(M(2, most), std::length_error);  // rounded up to whole strips it would be 0
  CHECK_THROWS_AS(M(1, most), std::length_error);
  CHECK_THROWS_AS(M(most / 8, 9), std::length_error);
  CHECK_THROWS_AS(M(std::size_t{1} << 32, std::size_t{1} << 32), std::length_error);
  CHECK_THROWS_AS(M(most / 64, 1), std::bad_alloc);  // countable, but not in bytes
  CHECK(M(most, 0).bytes() == 0);
  CHECK(M(0, 5).bytes() == 0);
}

TEST_CASE("new panels are zero, padding included") {
  panels<float> p(3, 5);
  bool zero = true;
  for (std::size_t i = 0; i < p.bytes() / sizeof(float); ++i) zero = zero && test::same_bits(p.view().data()[i], 0.0f);
  CHECK(zero);
  CHECK(reinterpret_cast<std::uintptr_t>(p.view().data()) % alignment == 0);
}

TEST_CASE_TEMPLATE("strips never lie a multiple of 4 KiB apart, and more rows never need less memory", T, float,
                   double) {
  std::size_t before = 0;
  for (std::size_t rows = 1; rows <= 5000; ++rows) {
    const std::size_t apart = panels<T>(rows, 1, storage::none).view().strip_stride();
    const std::size_t row = strip_columns<T> * sizeof(T);
    REQUIRE(apart >= std::max(before, rows * strip_columns<T>));
    REQUIRE(apart * sizeof(T) <= rows * row + (rows * row < 8 * 4096 ? row : 4096));
    REQUIRE(apart * sizeof(T) % 4096 != 0);
    before = apart;
  }
}

TEST_CASE("the number of rows changes within the capacity without moving memory") {
  panels<double> p(8, 5);
  const double* memory = p.view().data();
  for (const std::size_t rows : test::sizes{8, 3, 0, 1, 8}) {
    p.set_rows(rows);
    CHECK(p.rows() == rows);
    CHECK(p.capacity() == 8);
    CHECK(p.view().rows() == rows);
    CHECK(p.view().strip_stride() == (rows | 1) * strip_columns<double>);
    CHECK(p.view().data() == memory);
  }
  CHECK_THROWS_WITH_AS(p.set_rows(9), "swiglu: panels: rows above the capacity: expected 8, got 9", shape_error);
  CHECK(p.rows() == 8);

  paired_panels<double> pair(8, 5);
  pair.set_rows(2);
  CHECK(pair.rows() == 2);
  CHECK(pair.second().rows() == 2);
  CHECK_THROWS_AS(pair.set_rows(9), shape_error);
}

TEST_CASE("empty panels") {
  paired_panels<float> pair(0, 5), flat(5, 0);
  CHECK(pair.first().rows() == 0);
  CHECK(pair.second().cols() == 5);
  CHECK(flat.second().cols() == 0);
  CHECK(panels<float>().rows() == 0);
  CHECK(panels<float>(0, 7).bytes() == 0);
}

TEST_CASE("moved-from panels are empty") {
  panels<float> from(3, 5);
  const panels<float> to = std::move(from);
  CHECK(to.view().data() != nullptr);
  CHECK(from.view().rows() * from.view().cols() == 0);  // NOLINT: that is the point
}

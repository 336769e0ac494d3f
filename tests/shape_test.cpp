// SPDX-License-Identifier: MIT

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include <swiglu/shape.hpp>

using namespace swiglu;

// Everything about shapes works in a constant expression.
static_assert(may_equal(3, 3) && may_equal(3, dynamic) && may_equal(dynamic, 3) && !may_equal(3, 4));
static_assert(known_extent(3, dynamic) == 3 && known_extent(dynamic, 4) == 4 &&
              known_extent(dynamic, dynamic) == dynamic);
static_assert(round_up(0, 8) == 0 && round_up(1, 8) == 8 && round_up(8, 8) == 8 && round_up(9, 8) == 16);
static_assert(ceil_div(0, 8) == 0 && ceil_div(1, 8) == 1 && ceil_div(8, 8) == 1 && ceil_div(9, 8) == 2);

static_assert(extents<4, dynamic, 16>::rank == 3 && extents<4, dynamic, 16>::dynamic_rank == 1);
static_assert(extents<4, 4, 16>::is_static && !extents<4, dynamic, 16>::is_static);
static_assert(extents<4, 4, 16>{}.rows() == 16 && extents<4, 4, 16>{}.cols() == 16);
static_assert(extents<4, dynamic, 16>{3}.rows() == 12 && extents<4, dynamic, 16>{3}.count() == 192);
static_assert(extents<4, dynamic, 16>::static_rows() == dynamic && extents<4, 5, 16>::static_rows() == 20);
static_assert(extents<4, dynamic>::static_cols() == dynamic && extents<dynamic, 4>::static_cols() == 4);
static_assert(extents<7>{}.rows() == 1 && extents<7>{}.cols() == 7 && extents<7>::static_rows() == 1);
static_assert(extents<dynamic, dynamic>{2, 3} == extents<dynamic, dynamic>{2, 3});
static_assert(!(extents<dynamic, dynamic>{2, 3} == extents<dynamic, dynamic>{3, 2}));

// One number for each dynamic extent, no more and no fewer; extents that cannot be equal do not convert.
static_assert(std::is_constructible_v<extents<4, dynamic>, int>);
static_assert(!std::is_constructible_v<extents<4, dynamic>, int, int>);
static_assert(!std::is_constructible_v<extents<4, 5>, int>);
static_assert(std::is_convertible_v<extents<4, 5>, extents<4, dynamic>>);
static_assert(std::is_convertible_v<extents<4, dynamic>, extents<dynamic, 5>>);
static_assert(!std::is_constructible_v<extents<4, 5>, extents<4, 6>>);
static_assert(!std::is_constructible_v<extents<4, 5>, extents<20>>);

static_assert(std::is_base_of_v<std::invalid_argument, shape_error>);

TEST_CASE("dynamic extents are given in order, and are 0 by default") {
  const extents<dynamic, 4, dynamic> e{2, 5};
  CHECK(e.extent(0) == 2);
  CHECK(e.extent(1) == 4);
  CHECK(e.extent(2) == 5);
  CHECK(e.rows() == 8);
  CHECK(e.cols() == 5);
  CHECK(e.count() == 40);
  CHECK(extents<dynamic, 4>{}.rows() == 0);
  CHECK(extents<dynamic, 4>{}.count() == 0);
  CHECK(extents<4, dynamic>{}.cols() == 0);
}

TEST_CASE("a shape survives every conversion there and back") {
  const extents<2, 3, 5> fixed;
  const extents<dynamic, 3, dynamic> partly = fixed;
  const extents<dynamic, dynamic, dynamic> free = partly;
  CHECK(free == extents<dynamic, dynamic, dynamic>(fixed));
  CHECK(extents<2, 3, 5>(free) == fixed);
  CHECK(extents<2, dynamic, 5>(partly).extent(1) == 3);
  CHECK(free.rows() == fixed.rows());
  CHECK(free.cols() == fixed.cols());
  CHECK(free.count() == fixed.count());
}

TEST_CASE("a conversion that does not fit names both numbers") {
  const extents<dynamic, dynamic> e{48, 64};
  CHECK_THROWS_WITH_AS((extents<32, 64>(e)), "swiglu: conversion of a shape: expected 32, got 48", shape_error);
  CHECK_THROWS_WITH_AS((extents<dynamic, 63>(e)), "swiglu: conversion of a shape: expected 63, got 64", shape_error);
  CHECK_NOTHROW((extents<48, dynamic>(e)));
}

TEST_CASE("shape errors say where, what was expected and what was given") {
  CHECK_NOTHROW(check_extent("anywhere", 7, 7));
  CHECK_THROWS_WITH_AS(check_extent("forward: rows of out", 7, 8), "swiglu: forward: rows of out: expected 7, got 8",
                       shape_error);
}

TEST_CASE("a product that cannot be counted is refused, one that just can is not") {
  constexpr std::size_t most = static_cast<std::size_t>(-1);
  CHECK(checked_product(most, 1) == most);
  CHECK(checked_product(most / 3, 3) == most);
  CHECK(checked_product(most, 0) == 0);
  CHECK(checked_product(0, most) == 0);
  CHECK_THROWS_AS((void)checked_product(most / 3 + 1, 3), std::length_error);
  CHECK_THROWS_AS((void)checked_product(3, most / 3 + 1), std::length_error);
  CHECK_THROWS_AS((void)checked_product(most, most), std::length_error);
  CHECK_THROWS_AS((void)(extents<dynamic, 8>{most / 8 + 1}.count()), std::length_error);
  CHECK(extents<dynamic, 8>{most / 8}.count() == most / 8 * 8);
}

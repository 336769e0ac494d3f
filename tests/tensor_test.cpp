// SPDX-License-Identifier: MIT

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <swiglu/tensor.hpp>

#include "support/compare.hpp"
#include "support/random.hpp"

using namespace swiglu;
using test::dynamic_tensor;

// A tensor makes a read-only view whatever it is, and a writable one only if it is no temporary and not const.
static_assert(std::is_convertible_v<tensor<float, 2, 3>&, view<float, 2, 3>>);
static_assert(std::is_convertible_v<tensor<float, 2, 3>&, view<const float, 2, 3>>);
static_assert(std::is_convertible_v<tensor<float, 2, 3>&, view<float, dynamic, 3>>);
static_assert(std::is_convertible_v<const tensor<float, 2, 3>&, view<const float, dynamic, dynamic>>);
static_assert(!std::is_convertible_v<const tensor<float, 2, 3>&, view<float, 2, 3>>);
static_assert(!std::is_convertible_v<tensor<float, 2, 3>, view<float, 2, 3>>);
static_assert(!std::is_convertible_v<tensor<float, 2, 3>&, view<float, 2, 4>>);
static_assert(!std::is_convertible_v<tensor<float, 2, 3>&, view<double, 2, 3>>);
static_assert(std::is_convertible_v<view<float, 2, 3>, view<const float, dynamic, 3>>);
static_assert(!std::is_convertible_v<view<const float, 2, 3>, view<float, 2, 3>>);
static_assert(std::is_trivially_copyable_v<view<float, dynamic, 3>>);
static_assert(std::is_nothrow_move_constructible_v<tensor<float, dynamic, 3>>);
static_assert(std::is_nothrow_move_assignable_v<tensor<float, dynamic, 3>>);
static_assert(!std::is_convertible_v<int, tensor<float, dynamic>>);

namespace {

bool aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % alignment == 0; }

template <class X>
bool all_zero(const X& t) {
  for (const auto x : t.span())
    if (!test::same_bits(x, decltype(x)(0))) return false;
  return true;
}

}  // namespace

TEST_CASE_TEMPLATE("owned memory is aligned to 64 bytes, contiguous and zero", T, float, double) {
  for (const std::size_t n : test::sizes{1, 2, 3, 15, 16, 17, 1000, 4097}) {
    const tensor<T, dynamic> vector(n);
    const tensor<T, dynamic, 3> matrix(n);
    CHECK(aligned(vector.data()));
    CHECK(aligned(matrix.data()));
    CHECK(vector.size() == n);
    CHECK(matrix.size() == 3 * n);
    CHECK(matrix.pitch() == 3);
    CHECK(all_zero(vector));
    CHECK(all_zero(matrix));
  }
  CHECK(aligned(tensor<T, 3, 5, 7>().data()));
}

TEST_CASE("memory from 4 MiB on is aligned and zero, too, although dirty memory was given back before") {
  for (int i = 0; i < 3; ++i) {
    tensor<float, dynamic> big(std::size_t{1} << 21);
    CHECK(aligned(big.data()));
    CHECK(all_zero(big));
    for (float& x : big.span()) x = 1;
  }
}

TEST_CASE("more elements than there can be are refused") {
  CHECK_THROWS_AS((tensor<float, dynamic>(static_cast<std::size_t>(-1) / 4)), std::bad_alloc);
  // 2^33 x 2^33 elements are 2^66, which is 0 in 64 bits.
  CHECK_THROWS((tensor<float, dynamic, dynamic>(std::size_t{1} << 33, std::size_t{1} << 33)));
}

TEST_CASE("element (i, j, k) lies where row-major order says") {
  tensor<float, 2, dynamic, 5> t(3);
  for (std::size_t i = 0; i < t.size(); ++i) t.data()[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      for (std::size_t k = 0; k < 5; ++k) {
        CHECK(t(i, j, k) == static_cast<float>((i * 3 + j) * 5 + k));
        CHECK(&std::as_const(t)(i, j, k) == &t.view()(i, j, k));
      }
  CHECK(t.rows() == 6);
  CHECK(t.cols() == 5);
  CHECK(t.extent(1) == 3);
  CHECK(t.span().size() == 30);
}

TEST_CASE("copies are deep") {
  const dynamic_tensor<float> original = test::random_tensor<float>(3, 5, 1);
  dynamic_tensor<float> copy = original, assigned(7, 7);
  assigned = original;
  CHECK(copy.data() != original.data());
  CHECK(test::same_bits(copy, original));
  CHECK(test::same_bits(assigned, original));
  copy(1, 1) += 1;
  CHECK_FALSE(test::same_bits(copy, original));
  CHECK(test::same_bits(assigned, original));

  dynamic_tensor<float>& itself = copy;
  copy = itself;
  CHECK(copy(1, 1) == original(1, 1) + 1);
  copy = dynamic_tensor<float>();
  CHECK(copy.size() == 0);
}

TEST_CASE("moving takes the memory along and leaves an empty tensor that can be used again") {
  dynamic_tensor<double> from = test::random_tensor<double>(3, 5, 1);
  const dynamic_tensor<double> expected = from;
  const double* memory = from.data();
  dynamic_tensor<double> to = std::move(from);
  CHECK(to.data() == memory);
  CHECK(test::same_bits(to, expected));
  CHECK(from.size() == 0);  // NOLINT: that is the point
  CHECK(from.data() == nullptr);
  CHECK(from.rows() == 0);
  CHECK(from.cols() == 0);

  from = std::move(to);
  CHECK(from.data() == memory);
  CHECK(to.size() == 0);  // NOLINT: see above
  dynamic_tensor<double>& itself = from;
  from = std::move(itself);
  CHECK(test::same_bits(from, expected));
}

TEST_CASE("a moved-from buffer is empty") {
  buffer<float> from(10);
  const buffer<float> to = std::move(from);
  CHECK(to.size() == 10);
  CHECK(from.data() == nullptr);  // NOLINT: that is the point
  CHECK(from.size() == 0);
}

TEST_CASE("zero extents: no memory, no elements, any view of it is fine") {
  tensor<float, dynamic, 64> t(0);
  CHECK(t.size() == 0);
  CHECK(t.rows() == 0);
  CHECK(t.cols() == 64);
  CHECK(t.span().empty());
  const dynamic_tensor<float> flat(5, 0);
  CHECK(flat.rows() == 5);
  CHECK(flat.cols() == 0);
  CHECK(flat.size() == 0);
  const view<const float, dynamic, dynamic> all = t;
  CHECK(all.rows() == 0);
  CHECK(t.view().row_block(0, 0).rows() == 0);
  CHECK(t.view().column_block(0, 32).cols() == 32);
  CHECK(t.view().column_block(32, 32).cols() == 32);
  CHECK(t.view().column_block(64, 0).cols() == 0);
  CHECK(t.view().column_block(32, 32).data() == nullptr);  // nor an address beside it
  CHECK(view<float, dynamic, dynamic>(nullptr, {5, 0}, 7).row_block(3, 2).data() == nullptr);
  const dynamic_tensor<float> copy = flat;
  CHECK(copy.rows() == 5);
  CHECK(view<float, dynamic, 4>().rows() == 0);
}

TEST_CASE("views convert to more static and to more dynamic extents, and say what does not fit") {
  tensor<float, 4, 6> t;
  const view<float, dynamic, 6> partly = t;
  const view<const float, dynamic, dynamic> free = partly;
  const view<const float, 4, 6> fixed = free;
  CHECK(fixed.data() == t.data());
  CHECK(fixed.rows() == 4);
  CHECK(fixed.pitch() == 6);
  CHECK_THROWS_WITH_AS((view<const float, 5, 6>(free)), "swiglu: conversion of a shape: expected 5, got 4",
                       shape_error);
  CHECK_THROWS_WITH_AS((view<const float, 4, 7>(free)), "swiglu: conversion of a shape: expected 7, got 6",
                       shape_error);

  // The pitch survives.
  const view<float, dynamic, dynamic> columns = t.view().column_block(1, 3);
  const view<const float, 4, 3> as_static = columns;
  CHECK(as_static.pitch() == 6);
  CHECK(&as_static(2, 1) == &t(2, 2));
}

TEST_CASE("a row pitch keeps rows apart and is at least the columns") {
  float memory[14];
  for (int i = 0; i < 14; ++i) memory[i] = static_cast<float>(i);
  const view<float, dynamic, 4> v(memory, {3}, 5);
  CHECK(v(0, 0) == 0);
  CHECK(v(1, 0) == 5);
  CHECK(v(2, 3) == 13);
  CHECK(view<float, 3, 4>(memory).pitch() == 4);
  CHECK_THROWS_WITH_AS((view<float, dynamic, 4>(memory, {3}, 3)),
                       "swiglu: view: row pitch is below the columns: expected 4, got 3", shape_error);
}

TEST_CASE("blocks of rows and columns address the same elements, and end where the matrix ends") {
  tensor<float, dynamic, 7> t(5);
  for (std::size_t first = 0; first <= 5; ++first)
    for (std::size_t count = 0; first + count <= 5; ++count) {
      const view<float, dynamic, 7> rows = t.view().row_block(first, count);
      CHECK(rows.rows() == count);
      for (std::size_t r = 0; r < count; ++r) CHECK(&rows(r, 6) == &t(first + r, 6));
    }
  for (std::size_t first = 0; first <= 7; ++first)
    for (std::size_t count = 0; first + count <= 7; ++count) {
      const view<float, dynamic, dynamic> columns = t.view().column_block(first, count);
      CHECK(columns.cols() == count);
      CHECK(columns.pitch() == 7);
      for (std::size_t c = 0; c < count; ++c) CHECK(&columns(4, c) == &t(4, first + c));
    }
  const auto inner = t.view().row_block(1, 3).column_block(2, 4);
  CHECK(&inner(2, 3) == &t(3, 5));
  CHECK(&inner.column_block(1, 1).row_block(1, 1)(0, 0) == &t(2, 3));

  CHECK_THROWS_WITH_AS(t.view().row_block(3, 3), "swiglu: row_block: end: expected 5, got 6", shape_error);
  CHECK_THROWS_WITH_AS(t.view().column_block(8, 0), "swiglu: column_block: end: expected 7, got 8", shape_error);
  CHECK_THROWS_AS(t.view().row_block(1, static_cast<std::size_t>(-1)), shape_error);
}

TEST_CASE("a block of a tensor of rank 3 counts the collapsed rows") {
  tensor<float, 2, 3, 4> t;
  const view<float, dynamic, 4> rows = t.view().row_block(2, 3);
  CHECK(&rows(0, 0) == &t(0, 2, 0));
  CHECK(&rows(2, 3) == &t(1, 1, 3));
  CHECK(t.view().column_block(1, 2).rows() == 6);
}

TEST_CASE("a view of a span has all of its elements") {
  std::vector<float> numbers(15);
  const view<float, dynamic, 5> v(numbers, {3});
  CHECK(v.data() == numbers.data());
  CHECK(v.rows() == 3);
  CHECK(v.pitch() == 5);
  const view<const float, 3, 5> read_only(std::span<const float>(numbers), {});
  CHECK(&read_only(2, 4) == &numbers[14]);
  CHECK_THROWS_WITH_AS((view<float, dynamic, 5>(numbers, {2})),
                       "swiglu: view: elements of the span: expected 10, got 15", shape_error);
  CHECK_THROWS_AS((view<float, dynamic, 5>(numbers, {4})), shape_error);
  static_assert(!std::is_constructible_v<view<float, 3, 5>, const std::vector<float>&, extents<3, 5>>);
}

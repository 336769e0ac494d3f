// SPDX-License-Identifier: MIT
// Views from and to std::mdspan: with a look-alike on every compiler, with the real one where there is one.

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <string>
#include <version>

#if defined(__cpp_lib_mdspan)
#include <mdspan>
#endif

#include <swiglu/tensor.hpp>

using namespace swiglu;

namespace {

/// The feature-test macro as a number: 0 where there is no std::mdspan.
constexpr long lib_mdspan =
#if defined(__cpp_lib_mdspan)
    __cpp_lib_mdspan;
#else
    0;
#endif

/// What of std::mdspan with layout_stride the library needs.
template <class T, std::size_t Rank>
class strided {
 public:
  struct extents_type {
    std::array<std::size_t, Rank> extent;
    explicit extents_type(const std::array<std::size_t, Rank>& e) : extent(e) {}
  };
  struct mapping_type {
    extents_type extents;
    std::array<std::size_t, Rank> stride;
    mapping_type(const extents_type& e, const std::array<std::size_t, Rank>& s) : extents(e), stride(s) {}
  };
  strided(T* data, mapping_type mapping) : data_(data), mapping_(mapping) {}
  strided(T* data, std::array<std::size_t, Rank> e, std::array<std::size_t, Rank> s)
      : strided(data, mapping_type(extents_type(e), s)) {}

  static constexpr std::size_t rank() { return Rank; }
  T* data_handle() const { return data_; }
  std::size_t extent(std::size_t i) const { return mapping_.extents.extent[i]; }
  std::size_t stride(std::size_t i) const { return mapping_.stride[i]; }
  T& operator()(const std::array<std::size_t, Rank>& at) const {
    std::size_t offset = 0;
    for (std::size_t i = 0; i < Rank; ++i) offset += at[i] * stride(i);
    return data_[offset];
  }

 private:
  T* data_;
  mapping_type mapping_;
};

float memory[4000];

}  // namespace

static_assert(mdspan_like<strided<float, 2>, float> && mdspan_like<strided<float, 2>, const float>);
static_assert(!mdspan_like<strided<const float, 2>, float> && !mdspan_like<strided<float, 2>, double>);
static_assert(!mdspan_like<float*, float>);

TEST_CASE("an mdspan of any rank with contiguous rows is a view of the same elements, and back") {
  using vector = view<float, dynamic>;
  const vector v = vector::from_mdspan(strided<float, 1>(memory, {5}, {1}));
  CHECK(v.cols() == 5);
  CHECK(&v(4) == memory + 4);

  using matrix = view<const float, dynamic, dynamic>;
  const matrix m = matrix::from_mdspan(strided<float, 2>(memory, {3, 5}, {7, 1}));
  CHECK(m.rows() == 3);
  CHECK(m.cols() == 5);
  CHECK(m.pitch() == 7);
  CHECK(&m(2, 4) == memory + 18);

  using cube = view<float, dynamic, 3, dynamic>;
  const strided<float, 3> given(memory, {2, 3, 5}, {21, 7, 1});
  const cube c = cube::from_mdspan(given);
  CHECK(c.rows() == 6);
  CHECK(c.pitch() == 7);
  const auto back = c.to_mdspan<strided<float, 3>>();
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      for (std::size_t k = 0; k < 5; ++k) {
        CHECK(&c(i, j, k) == &given({i, j, k}));
        CHECK(&back({i, j, k}) == &given({i, j, k}));
      }
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(back.extent(i) == given.extent(i));
    CHECK(back.stride(i) == given.stride(i));
  }
}

TEST_CASE("tensors go to an mdspan and come back") {
  tensor<float, 2, dynamic, 4, 5> t(3);
  const auto m = t.view().to_mdspan<strided<float, 4>>();
  const view<float, 2, dynamic, 4, 5> v = view<float, 2, dynamic, 4, 5>::from_mdspan(m);
  CHECK(v.data() == t.data());
  CHECK(v.shape() == t.shape());
  CHECK(v.pitch() == 5);
  CHECK(&m({1, 2, 3, 4}) == &t(1, 2, 3, 4));
}

TEST_CASE("an mdspan whose rows cannot be collapsed is refused, with the numbers") {
  using matrix = view<float, dynamic, dynamic>;
  using cube = view<float, dynamic, dynamic, dynamic>;
  CHECK_THROWS_WITH_AS(matrix::from_mdspan(strided<float, 2>(memory, {3, 5}, {1, 3})),
                       "swiglu: from_mdspan: last stride: expected 1, got 3", shape_error);
  CHECK_THROWS_WITH_AS(matrix::from_mdspan(strided<float, 2>(memory, {3, 5}, {4, 1})),
                       "swiglu: view: row pitch is below the columns: expected 5, got 4", shape_error);
  CHECK_THROWS_WITH_AS(cube::from_mdspan(strided<float, 3>(memory, {2, 3, 5}, {100, 7, 1})),
                       "swiglu: from_mdspan: stride of a leading extent: expected 21, got 100", shape_error);
  CHECK_THROWS_AS(cube::from_mdspan(strided<float, 3>(memory, {3, 2, 5}, {5, 15, 1})), shape_error);  // permuted
  CHECK_THROWS_AS(matrix::from_mdspan(strided<float, 2>(memory, {3, 5}, {0, 1})), shape_error);       // repeated
}

TEST_CASE("static extents of the view are checked") {
  using fixed = view<float, 3, 5>;
  CHECK(fixed::from_mdspan(strided<float, 2>(memory, {3, 5}, {9, 1})).pitch() == 9);
  CHECK_THROWS_WITH_AS(fixed::from_mdspan(strided<float, 2>(memory, {4, 5}, {5, 1})),
                       "swiglu: conversion of a shape: expected 3, got 4", shape_error);
  CHECK_THROWS_WITH_AS(fixed::from_mdspan(strided<float, 2>(memory, {3, 6}, {6, 1})),
                       "swiglu: conversion of a shape: expected 5, got 6", shape_error);
}

TEST_CASE("strides of extents 0 and 1 do not matter: they are never taken") {
  using matrix = view<float, dynamic, dynamic>;
  using cube = view<float, dynamic, dynamic, dynamic>;
  CHECK(matrix::from_mdspan(strided<float, 2>(memory, {3, 1}, {4, 99})).pitch() == 4);
  CHECK(matrix::from_mdspan(strided<float, 2>(memory, {1, 5}, {2, 1})).cols() == 5);
  CHECK(matrix::from_mdspan(strided<float, 2>(nullptr, {0, 5}, {3, 1})).rows() == 0);
  CHECK(matrix::from_mdspan(strided<float, 2>(nullptr, {3, 0}, {0, 7})).cols() == 0);
  const cube middle = cube::from_mdspan(strided<float, 3>(memory, {4, 1, 5}, {6, 99, 1}));
  CHECK(middle.pitch() == 6);
  CHECK(&middle(3, 0, 4) == memory + 22);
  CHECK(cube::from_mdspan(strided<float, 3>(memory, {1, 4, 5}, {99, 6, 1})).pitch() == 6);
  CHECK(cube::from_mdspan(strided<float, 3>(nullptr, {2, 0, 5}, {1, 1, 1})).rows() == 0);
}

TEST_CASE("std::mdspan itself") {
#if defined(__cpp_lib_mdspan)
  const std::mdspan<float, std::dextents<std::size_t, 2>> dense(memory, 3, 5);
  const view<const float, dynamic, dynamic> v = view<const float, dynamic, dynamic>::from_mdspan(dense);
  CHECK(v.pitch() == 5);
  CHECK(&v(2, 4) == memory + 14);

  using layout_stride = std::mdspan<float, std::dextents<std::size_t, 3>, std::layout_stride>;
  const view<float, 2, 3, 5> cube(memory, {}, 7);
  const layout_stride m = cube.to_mdspan<layout_stride>();
  const view<float, 2, 3, 5> back = view<float, 2, 3, 5>::from_mdspan(m);
  CHECK(back.data() == memory);
  CHECK(back.pitch() == 7);

  const std::mdspan<float, std::dextents<std::size_t, 2>, std::layout_left> columns(memory, 3, 5);
  CHECK_THROWS_AS((view<float, dynamic, dynamic>::from_mdspan(columns)), shape_error);
#else
  MESSAGE("not tested: there is no std::mdspan in this standard library, or in this version of C++");
  CHECK(lib_mdspan == 0);
#endif
}

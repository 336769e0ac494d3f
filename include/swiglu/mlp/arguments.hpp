// SPDX-License-Identifier: MIT
#pragma once

// What a caller hands to the layer, checked and brought into one form: tensors and views of any rank become matrices
// with run-time extents, so that the kernels are compiled once however the layer is called. A shape that the types
// contradict does not compile; one that the values contradict throws shape_error.

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include <swiglu/mlp/shard.hpp>
#include <swiglu/mlp/staging.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {
namespace impl {

template <std::size_t Columns, std::size_t Hidden>
struct columns_and_hidden {
  static_assert(may_equal(Columns, Hidden),
                "swiglu: mlp: the columns of x, out, grad_out or grad_x (first number) differ from the layer's hidden "
                "extent (second number)");
};
template <std::size_t Rows, std::size_t Columns, std::size_t LayerRows, std::size_t LayerColumns>
struct shape_and_layer {
  static_assert(may_equal(Rows, LayerRows) && may_equal(Columns, LayerColumns),
                "swiglu: mlp: the shape of a weight or gradient (first two numbers) differs from the layer's (last two "
                "numbers); gate and up are [hidden, intermediate], down is [intermediate, hidden]");
};

/// The weights with run-time extents: one type for every layer, so that layers share their kernels.
template <class U>
struct run_time_weights {
  view<U, dynamic, dynamic> gate, up, down;
};

template <class G>
inline constexpr bool is_gradient_target = false;
template <class G, bool Accumulate>
inline constexpr bool is_gradient_target<gradient_target<G, Accumulate>> = true;

/// A tensor or view as a matrix with run-time extents.
template <class Activation>
auto matrix_of(Activation& a) {
  const auto v = [&] {
    if constexpr (detail::is_tensor<std::remove_cv_t<Activation>>)
      return a.view();
    else
      return a;
  }();
  using element = typename std::remove_const_t<decltype(v)>::element_type;
  return view<element, dynamic, dynamic>(v.data(), extents<dynamic, dynamic>{v.rows(), v.cols()}, v.pitch());
}

/// x, out, grad_out or grad_x: [rows, Hidden].
template <std::size_t Hidden, class Activation>
auto activation(std::string_view where, Activation& a, std::size_t rows) {
  (void)sizeof(columns_and_hidden<Activation::static_cols, Hidden>);
  check_extent(where, "columns", Hidden, a.cols());
  check_extent(where, "rows", rows, a.rows());
  return matrix_of(a);
}

/// A weight: [Rows, Columns].
template <std::size_t Rows, std::size_t Columns, class M>
auto parameter(std::string_view where, const M& p) {
  (void)sizeof(shape_and_layer<M::static_rows, M::static_cols, Rows, Columns>);
  check_extent(where, "rows", Rows, p.rows());
  check_extent(where, "columns", Columns, p.cols());
  const auto m = matrix_of(p);
  return view<const typename decltype(m)::value_type, dynamic, dynamic>(m);
}

/// Rows of a tensor that a rank gets: all, or its share of them.
inline std::size_t rows_of(std::string_view where, std::size_t rows, reduction how, std::size_t ranks) {
  if (how != reduction::reduce_scatter) return rows;
  return shard_detail::equal_part(where, "rows to scatter", rows, ranks);
}

/// The gradient of a weight [Rows, Columns] that is summed over `ranks` ranks.
template <std::size_t Rows, std::size_t Columns, reduction How, bool Accumulate, class M>
auto gradient(std::string_view where, M& g, std::size_t ranks) {
  if constexpr (How != reduction::reduce_scatter)
    (void)sizeof(shape_and_layer<M::static_rows, M::static_cols, Rows, Columns>);
  check_extent(where, "rows", rows_of(where, Rows, How, ranks), g.rows());
  check_extent(where, "columns", Columns, g.cols());
  return staged_tensor<typename M::value_type>(matrix_of(g), How, ranks, Accumulate);
}

/// Throws std::invalid_argument if a result shares memory with an input that is read after it is written.
template <class Activation, class Input>
void refuse_overlap(std::string_view what, const Activation& result, const Input& input) {
  if (overlap(footprint_of(result), footprint_of(input)))
    throw std::invalid_argument("swiglu: " + std::string(what) + " overlap");
}

}  // namespace impl
}  // namespace SWIGLU_ABI
}  // namespace swiglu

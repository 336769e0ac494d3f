// SPDX-License-Identifier: MIT
#pragma once

// Matrix products as nodes. A product used in an expression is one set of accumulators; a sum of unnamed products is
// one set too, into which all of them accumulate. A name gives a product its identity: the same name in several
// assignments of one kernel is one set of accumulators.

#include <cstddef>
#include <tuple>

#include <swiglu/expr/transpose.hpp>
#include <swiglu/gemm/operand.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

namespace impl {

template <std::size_t LeftColumns, std::size_t RightRows>
struct product_depth {
  static_assert(may_equal(LeftColumns, RightRows),
                "swiglu: product(a, b): the columns of a (first number) differ from the rows of b (second number)");
};
template <std::size_t First, std::size_t Second>
struct sum_rows {
  static_assert(may_equal(First, Second), "swiglu: the products of a sum differ in their rows");
};
template <std::size_t First, std::size_t Second>
struct sum_columns {
  static_assert(may_equal(First, Second), "swiglu: the products of a sum differ in their columns");
};

template <class E>
inline constexpr bool is_matrix_leaf = false;
template <class V>
inline constexpr bool is_matrix_leaf<view_leaf<V>> = true;
template <class V>
inline constexpr bool is_matrix_leaf<panel_leaf<V>> = true;
template <class V>
inline constexpr bool is_matrix_leaf<interleaved_leaf<V>> = true;
template <class L>
inline constexpr bool is_matrix_leaf<transposed_leaf<L>> = is_matrix_leaf<L>;

}  // namespace impl

/// left times right, both matrix leaves.
template <expression Left, expression Right>
struct factor_pair {
  Left left;
  Right right;
};

/// A sum of products [rows, depth_i] x [depth_i, cols] with one identity.
template <name Name, class... Pairs>
struct product_node : node {
  using value_type = std::common_type_t<typename decltype(Pairs::left)::value_type...>;
  static constexpr auto identity = Name;
  static constexpr std::size_t terms = sizeof...(Pairs);
  static constexpr std::size_t products = 1, gates = 0;
  static constexpr std::size_t static_rows = [] {
    std::size_t e = dynamic;
    ((e = known_extent(e, decltype(Pairs::left)::static_rows)), ...);
    return e;
  }();
  static constexpr std::size_t static_cols = [] {
    std::size_t e = dynamic;
    ((e = known_extent(e, decltype(Pairs::right)::static_cols)), ...);
    return e;
  }();
  std::tuple<Pairs...> pairs;

  [[gnu::always_inline]] explicit product_node(const Pairs&... p) : pairs(p...) {
    ((void)sizeof(impl::product_depth<decltype(Pairs::left)::static_cols, decltype(Pairs::right)::static_rows>), ...);
    ((void)sizeof(impl::sum_rows<static_rows, decltype(Pairs::left)::static_rows>), ...);
    ((void)sizeof(impl::sum_columns<static_cols, decltype(Pairs::right)::static_cols>), ...);
    (check_extent("product(a, b): rows of b", p.left.cols(), p.right.rows()), ...);
    (check_extent("sum of products: rows", rows(), p.left.rows()), ...);
    (check_extent("sum of products: columns", cols(), p.right.cols()), ...);
  }
  std::size_t rows() const { return std::get<0>(pairs).left.rows(); }
  std::size_t cols() const { return std::get<0>(pairs).right.cols(); }
  template <std::size_t P, std::size_t, class Context, bool Whole>
  [[gnu::always_inline]] pack<value_type> value(Context& context, place<Whole> at) const {
    return context.template product<P>(at.row, at.col);
  }
};

namespace impl {

template <name Name, class... Pairs>
[[gnu::always_inline]] inline auto transposed(product_node<Name, Pairs...> e) {
  return std::apply(
      [](const Pairs&... p) {
        const auto swapped = [](const auto& pair) {
          auto left = transposed(pair.right);
          auto right = transposed(pair.left);
          return factor_pair<decltype(left), decltype(right)>{left, right};
        };
        return product_node<Name, decltype(swapped(p))...>(swapped(p)...);
      },
      e.pairs);
}

template <class E>
inline constexpr bool is_unnamed_product = false;
template <class... Pairs>
inline constexpr bool is_unnamed_product<product_node<name{""}, Pairs...>> = true;

}  // namespace impl

}  // namespace SWIGLU_ABI
}  // namespace swiglu

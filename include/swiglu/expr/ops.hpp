// SPDX-License-Identifier: MIT
#pragma once

// The words of the language: what one writes to build nodes. Operands are tensors, views (interleaved ones too),
// panels, numbers (beside a matrix) and expressions; a tensor is held by reference to its memory, an expression by
// value.

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <swiglu/expr/product.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

namespace impl {

template <class X>
inline constexpr bool is_owner = detail::is_tensor<X>;
template <class T>
inline constexpr bool is_owner<panels<T>> = true;

/// What may stand in an expression beside numbers.
template <class X>
concept matrix_operand = expression<std::remove_cvref_t<X>> || detail::is_view<std::remove_cvref_t<X>> ||
    detail::is_interleaved<std::remove_cvref_t<X>> || is_panel_view<std::remove_cvref_t<X>> ||
    is_owner<std::remove_cvref_t<X>>;

template <class X>
inline constexpr bool is_temporary_owner = !std::is_lvalue_reference_v<X> && is_owner<std::remove_cvref_t<X>>;

template <class X>
struct outlives_the_expression {
  static_assert(!is_temporary_owner<X>,
                "swiglu: a temporary tensor would be destroyed before the expression that reads it is evaluated; give "
                "it a name first");
};

/// The node of an operand.
template <class X>
  requires matrix_operand<X>
[[gnu::always_inline]] inline auto as_node(X&& x) {
  using U = std::remove_cvref_t<X>;
  (void)sizeof(outlives_the_expression<X>);
  if constexpr (expression<U>) {
    return x;
  } else if constexpr (is_panel_view<U>) {
    return panel_leaf<panel_view<const typename U::value_type, U::run>>(x);
  } else if constexpr (detail::is_interleaved<U>) {
    return []<class T, std::size_t R, std::size_t C, along Axis>(interleaved_view<T, R, C, Axis> v) {
      using read_only = interleaved_view<const std::remove_const_t<T>, R, C, Axis>;
      return interleaved_leaf<read_only>(read_only(v));
    }(x);
  } else if constexpr (detail::is_view<U>) {
    return []<class T, std::size_t... E>(view<T, E...> v) {
      return view_leaf<view<const std::remove_const_t<T>, E...>>(v);
    }(x);
  } else {
    return as_node(std::as_const(x).view());
  }
}
template <class X>
using node_of = decltype(as_node(std::declval<X>()));

/// The node of an operand or of a number beside operands of element type T.
template <class T, class X>
[[gnu::always_inline]] inline auto as_node_beside(X&& x) {
  if constexpr (matrix_operand<X>)
    return as_node(std::forward<X>(x));
  else
    return scalar_leaf<T>(static_cast<T>(x));
}
template <class Lhs, class Rhs>
concept operand_pair = (matrix_operand<Lhs> &&
                        (matrix_operand<Rhs> || std::is_arithmetic_v<std::remove_cvref_t<Rhs>>)) ||
                       (std::is_arithmetic_v<std::remove_cvref_t<Lhs>> && matrix_operand<Rhs>);
template <class Lhs, class Rhs>
struct element_of {
  using type = typename node_of<Lhs>::value_type;
};
template <class Lhs, class Rhs>
  requires(!matrix_operand<Lhs>)
struct element_of<Lhs, Rhs> {
  using type = typename node_of<Rhs>::value_type;
};

template <class F, class Lhs, class Rhs>
[[gnu::always_inline]] inline auto binary(F f, Lhs&& a, Rhs&& b) {
  using T = typename element_of<Lhs, Rhs>::type;
  using left = decltype(as_node_beside<T>(std::forward<Lhs>(a)));
  using right = decltype(as_node_beside<T>(std::forward<Rhs>(b)));
  return map_node<F, left, right>(f, as_node_beside<T>(std::forward<Lhs>(a)), as_node_beside<T>(std::forward<Rhs>(b)));
}

struct add {
  template <class V>
  [[gnu::always_inline]] V operator()(V a, V b) const {
    return a + b;
  }
};
struct subtract {
  template <class V>
  [[gnu::always_inline]] V operator()(V a, V b) const {
    return a - b;
  }
};
struct multiply {
  template <class V>
  [[gnu::always_inline]] V operator()(V a, V b) const {
    return a * b;
  }
};
struct divide {
  template <class V>
  [[gnu::always_inline]] V operator()(V a, V b) const {
    return a / b;
  }
};
struct negate {
  template <class V>
  [[gnu::always_inline]] V operator()(V a) const {
    return -a;
  }
};

}  // namespace impl

/// Elementwise arithmetic; one of the operands may be a number. The sum of two unnamed products is one product node:
/// both accumulate into the same registers.
template <class Lhs, class Rhs>
  requires impl::operand_pair<Lhs, Rhs>
[[gnu::always_inline]] inline auto operator+(Lhs&& a, Rhs&& b) {
  using L = std::remove_cvref_t<Lhs>;
  using R = std::remove_cvref_t<Rhs>;
  if constexpr (impl::is_unnamed_product<L> && impl::is_unnamed_product<R>)
    return std::apply([](auto... p) { return product_node<name{""}, decltype(p)...>(p...); },
                      std::tuple_cat(a.pairs, b.pairs));
  else
    return impl::binary(impl::add{}, std::forward<Lhs>(a), std::forward<Rhs>(b));
}
template <class Lhs, class Rhs>
  requires impl::operand_pair<Lhs, Rhs>
[[gnu::always_inline]] inline auto operator-(Lhs&& a, Rhs&& b) {
  return impl::binary(impl::subtract{}, std::forward<Lhs>(a), std::forward<Rhs>(b));
}
template <class Lhs, class Rhs>
  requires impl::operand_pair<Lhs, Rhs>
[[gnu::always_inline]] inline auto operator*(Lhs&& a, Rhs&& b) {
  return impl::binary(impl::multiply{}, std::forward<Lhs>(a), std::forward<Rhs>(b));
}
template <class Lhs, class Rhs>
  requires impl::operand_pair<Lhs, Rhs>
[[gnu::always_inline]] inline auto operator/(Lhs&& a, Rhs&& b) {
  return impl::binary(impl::divide{}, std::forward<Lhs>(a), std::forward<Rhs>(b));
}
template <impl::matrix_operand Lhs>
[[gnu::always_inline]] inline auto operator-(Lhs&& a) {
  return map_node<impl::negate, impl::node_of<Lhs>>(impl::negate{}, impl::as_node(std::forward<Lhs>(a)));
}

/// A function of one's own, element by element: f takes and returns values of type pack<T> (write it generic, then it
/// works on a scalar too). It must not have side effects.
template <class F, impl::matrix_operand... Lhs>
  requires(sizeof...(Lhs) > 0)
[[gnu::always_inline]] inline auto map(F f, Lhs&&... a) {
  return map_node<F, impl::node_of<Lhs>...>(f, impl::as_node(std::forward<Lhs>(a))...);
}

template <impl::matrix_operand Lhs>
[[gnu::always_inline]] inline auto sigmoid(Lhs&& a) {
  return gate_node<gate_kind::sigmoid, impl::node_of<Lhs>>(impl::as_node(std::forward<Lhs>(a)));
}
/// 1 - sigmoid(x), to full relative accuracy.
template <impl::matrix_operand Lhs>
[[gnu::always_inline]] inline auto sigmoid_complement(Lhs&& a) {
  return gate_node<gate_kind::complement, impl::node_of<Lhs>>(impl::as_node(std::forward<Lhs>(a)));
}
/// x sigmoid(x).
template <impl::matrix_operand Lhs>
[[gnu::always_inline]] inline auto silu(Lhs&& a) {
  return gate_node<gate_kind::silu, impl::node_of<Lhs>>(impl::as_node(std::forward<Lhs>(a)));
}
/// The derivative of silu.
template <impl::matrix_operand Lhs>
[[gnu::always_inline]] inline auto silu_grad(Lhs&& a) {
  return gate_node<gate_kind::silu_grad, impl::node_of<Lhs>>(impl::as_node(std::forward<Lhs>(a)));
}

/// [m, n] -> [n, m].
template <impl::matrix_operand Lhs>
[[gnu::always_inline]] inline auto transpose(Lhs&& a) {
  return impl::transposed(impl::as_node(std::forward<Lhs>(a)));
}

namespace impl {
template <class Leaf>
struct vector_of_a_broadcast {
  static_assert(
      !requires(const Leaf& l) { l.source.block(); },
      "swiglu: the vector of broadcast_row and broadcast_column cannot be interleaved");
};
}  // namespace impl

/// The vector v [n] as every row of a matrix [any, n].
template <impl::matrix_operand Lhs>
[[gnu::always_inline]] inline auto broadcast_row(Lhs&& v) {
  const auto leaf = impl::as_node(std::forward<Lhs>(v));
  (void)sizeof(impl::vector_of_a_broadcast<std::remove_const_t<decltype(leaf)>>);
  return broadcast_leaf<decltype(leaf.source), false>(leaf.source);
}
/// The vector v [n] as every column of a matrix [n, any].
template <impl::matrix_operand Lhs>
[[gnu::always_inline]] inline auto broadcast_column(Lhs&& v) {
  const auto leaf = impl::as_node(std::forward<Lhs>(v));
  (void)sizeof(impl::vector_of_a_broadcast<std::remove_const_t<decltype(leaf)>>);
  return broadcast_leaf<decltype(leaf.source), true>(leaf.source);
}

/// The matrix product a b: [m, k] x [k, n] -> [m, n]. `Name` gives it an identity (see product_node). Operands are
/// tensors, views and panels, or transposes of them; b may be an interleaved_view too. Throws shape_error if the
/// depths, known at run time, differ.
template <name Name = name{""}, impl::matrix_operand Lhs, impl::matrix_operand Rhs>
[[gnu::always_inline]] inline auto product(Lhs&& a, Rhs&& b) {
  using L = impl::node_of<Lhs>;
  using R = impl::node_of<Rhs>;
  static_assert(impl::is_matrix_leaf<L> && impl::is_matrix_leaf<R>,
                "swiglu: the operands of product are matrices or their transposes; evaluate other expressions first");
  static_assert(std::same_as<typename L::value_type, typename R::value_type>,
                "swiglu: the operands of product differ in their element type");
  return product_node<Name, factor_pair<L, R>>(
      factor_pair<L, R>{impl::as_node(std::forward<Lhs>(a)), impl::as_node(std::forward<Rhs>(b))});
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

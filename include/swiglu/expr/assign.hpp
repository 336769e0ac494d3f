// SPDX-License-Identifier: MIT
#pragma once

// destination <<= expression: one assignment of a kernel, as a value. Nothing happens until `evaluate` gets it.

#include <cstddef>
#include <type_traits>
#include <utility>

#include <swiglu/expr/ops.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

namespace impl {

template <std::size_t Destination, std::size_t Expression>
struct destination_rows {
  static_assert(extents_fit(Destination, Expression),
                "swiglu: destination <<= expression: the rows of the destination (first number) differ from those of "
                "the expression (second number)");
};
template <std::size_t Destination, std::size_t Expression>
struct destination_columns {
  static_assert(extents_fit(Destination, Expression),
                "swiglu: destination <<= expression: the columns of the destination (first number) differ from those "
                "of the expression (second number)");
};

template <class X>
struct outlives_the_assignment {
  static_assert(!is_temporary_owner<X>,
                "swiglu: a temporary tensor would be destroyed before the assignment that writes it is evaluated; give "
                "it a name first");
};

/// A destination and how it is written. `Turned`: it is the transpose of `to`.
template <class View, bool Accumulate, bool NoAlias, bool Turned = false>
struct marked_destination {
  View to;
};
template <class X>
inline constexpr bool is_marked = false;
template <class V, bool Accumulate, bool NoAlias, bool Turned>
inline constexpr bool is_marked<marked_destination<V, Accumulate, NoAlias, Turned>> = true;
template <class X>
inline constexpr bool writes_transpose = false;
template <class V, bool Accumulate, bool NoAlias>
inline constexpr bool writes_transpose<marked_destination<V, Accumulate, NoAlias, true>> = true;

template <class X>
concept destination = is_marked<std::remove_cvref_t<X>> || detail::is_view<std::remove_cvref_t<X>> ||
    detail::is_interleaved<std::remove_cvref_t<X>> || is_panel_view<std::remove_cvref_t<X>> ||
    is_owner<std::remove_cvref_t<X>>;

template <bool Accumulate, bool NoAlias, class X>
[[gnu::always_inline]] inline auto as_destination(X&& x) {
  using U = std::remove_cvref_t<X>;
  (void)sizeof(outlives_the_assignment<X>);
  if constexpr (is_marked<U>) {
    return []<class V, bool Adds, bool Alone, bool Turned>(marked_destination<V, Adds, Alone, Turned> m)
        __attribute__((always_inline)) {
      return marked_destination < V, Adds || Accumulate, Alone || NoAlias, Turned > {m.to};
    }
    (x);
  } else if constexpr (is_owner<U>) {
    return as_destination<Accumulate, NoAlias>(x.view());
  } else {
    static_assert(!std::is_const_v<typename U::element_type>, "swiglu: the destination of <<= is read-only");
    return marked_destination<U, Accumulate, NoAlias>{x};
  }
}

/// The destination whose transpose is assigned: `a` gets the transpose of the expression.
template <class View>
[[gnu::always_inline]] inline auto transposed_destination(View a) {
  return marked_destination<View, false, false, true>{a};
}

}  // namespace impl

/// Promises that the destination shares no memory with what the kernel reads: no overlap test, no temporary.
template <impl::destination D>
[[gnu::always_inline]] inline auto noalias(D&& to) {
  return impl::as_destination<false, true>(std::forward<D>(to));
}

/// Adds to what the destination holds instead of overwriting it.
template <impl::destination D>
[[gnu::always_inline]] inline auto accumulate(D&& to) {
  return impl::as_destination<true, false>(std::forward<D>(to));
}

/// One assignment of a kernel.
template <class View, expression E, bool Accumulate, bool NoAlias>
struct assignment {
  using view_type = View;
  using expression_type = E;
  using value_type = typename View::value_type;
  static constexpr bool accumulate = Accumulate, no_alias = NoAlias;
  View to;
  E from;
};

namespace impl {
template <class View, bool Accumulate, bool NoAlias, bool Turned, class X>
[[gnu::always_inline]] inline auto make_assignment(const marked_destination<View, Accumulate, NoAlias, Turned>& m,
                                                   X&& x) {
  using T = typename View::value_type;
  if constexpr (Turned) {
    return make_assignment(marked_destination<View, Accumulate, NoAlias>{m.to},
                           transposed(as_node_beside<T>(std::forward<X>(x))));
  } else {
    using E = decltype(as_node_beside<T>(std::forward<X>(x)));
    static_assert(std::same_as<T, typename E::value_type>,
                  "swiglu: destination and expression differ in their element type");
    (void)sizeof(destination_rows<View::static_rows, E::static_rows>);
    (void)sizeof(destination_columns<View::static_cols, E::static_cols>);
    const assignment<View, E, Accumulate, NoAlias> a{m.to, as_node_beside<T>(std::forward<X>(x))};
    (void)join_at_run_time("rows of the expression assigned", a.to.rows(), a.from.rows());
    (void)join_at_run_time("columns of the expression assigned", a.to.cols(), a.from.cols());
    return a;
  }
}
}  // namespace impl

/// Throws shape_error, before anything is written, if the shapes known at run time differ.
template <impl::destination D, class X>
  requires(impl::matrix_operand<X> || std::is_arithmetic_v<std::remove_cvref_t<X>>)
[[nodiscard("an assignment does nothing until it is evaluated"), gnu::always_inline]] inline auto operator<<=(
    D&& destination, X&& x) {
  const auto marked = impl::as_destination<false, false>(std::forward<D>(destination));
  return impl::make_assignment(marked, std::forward<X>(x));
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

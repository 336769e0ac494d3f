// SPDX-License-Identifier: MIT
#pragma once

// The nodes of an expression. Building one computes nothing; a node holds views and values, never a tensor, so that a
// stored expression is safe as long as the tensors it reads live. A tensor about to die is refused by the compiler.
//
// The evaluator asks a node for one register at a time: value<P, G>(context, place), where P and G number the products
// and the gates (sigmoid, silu, silu_grad) of the kernel in the order of the text. That is how a product knows its
// accumulators and how silu(h1) and silu_grad(h1) share one sigmoid.

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <swiglu/activation.hpp>
#include <swiglu/interleaved.hpp>
#include <swiglu/panels.hpp>
#include <swiglu/tensor.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// An extent that fits any: the rows of a broadcast row, both extents of a scalar.
inline constexpr std::size_t any_extent = dynamic - 1;

/// One register of the destination: `Whole`, or its first n lanes.
template <bool Whole>
struct place {
  std::size_t row, col, n;
};

/// Base of all nodes: marks a class as part of the expression language.
struct node {};

template <class E>
concept expression = std::derived_from<E, node>;

/// A string literal as a template argument.
template <std::size_t N>
struct name {
  char text[N];
  constexpr name(const char (&s)[N]) { std::copy_n(s, N, text); }  // NOLINT: meant to convert from a literal
  constexpr std::string_view view() const { return {text, N - 1}; }
  constexpr bool empty() const { return N == 1; }
};

namespace impl {

constexpr bool extents_fit(std::size_t a, std::size_t b) {
  return a == any_extent || b == any_extent || may_equal(a, b);
}
constexpr std::size_t joined_extent(std::size_t a, std::size_t b) {
  return a == any_extent ? b : b == any_extent ? a : known_extent(a, b);
}

template <std::size_t Left, std::size_t Right>
struct elementwise_rows {
  static_assert(extents_fit(Left, Right), "swiglu: the operands of an elementwise operation differ in their rows");
};
template <std::size_t Left, std::size_t Right>
struct elementwise_columns {
  static_assert(extents_fit(Left, Right), "swiglu: the operands of an elementwise operation differ in their columns");
};

/// The sum of the first i numbers.
template <std::size_t... N>
constexpr std::size_t sum_before(std::size_t i) {
  constexpr std::size_t n[] = {N..., 0};
  std::size_t sum = 0;
  for (std::size_t j = 0; j < i; ++j) sum += n[j];
  return sum;
}

inline std::size_t join_at_run_time(std::string_view what, std::size_t a, std::size_t b) {
  if (a == any_extent || b == any_extent) return a == any_extent ? b : a;
  check_extent(what, a, b);
  return a;
}

/// A register of a matrix in any memory. Of panels it is always a whole one: the padding is there.
template <bool Whole, class View>
[[gnu::always_inline]] inline pack<typename View::value_type> load_register(const View& from, place<Whole> at) {
  using V = pack<typename View::value_type>;
  if constexpr (is_panel_view<View>) {
    return V::load(from.at(at.row, at.col));
  } else if constexpr (detail::is_view<View>) {
    const auto* p = from.data() + at.row * from.pitch() + at.col;
    return Whole ? V::load(p) : V::load_partial(p, at.n);
  } else {
    const std::size_t n = Whole ? V::size : at.n;
    if (from.consecutive(V::size)) {
      const auto* p = from.at(at.row, at.col);
      return Whole ? V::load(p) : V::load_partial(p, n);
    }
    alignas(alignment) typename View::value_type lanes[V::size] = {};
    for (std::size_t i = 0; i < n; ++i) lanes[i] = from(at.row, at.col + i);
    return V::load(lanes);
  }
}

}  // namespace impl

/// A row-major matrix.
template <class View>
struct view_leaf : node {
  using value_type = typename View::value_type;
  static constexpr std::size_t static_rows = View::static_rows, static_cols = View::static_cols;
  static constexpr std::size_t products = 0, gates = 0;
  View source;

  explicit view_leaf(View v) : source(v) {}
  std::size_t rows() const { return source.rows(); }
  std::size_t cols() const { return source.cols(); }
  template <std::size_t, std::size_t, class Context, bool Whole>
  [[gnu::always_inline]] pack<value_type> value(Context&, place<Whole> at) const {
    return impl::load_register(source, at);
  }
};

/// A matrix that is interleaved with another one.
template <class View>
struct interleaved_leaf : node {
  using value_type = typename View::value_type;
  static constexpr std::size_t static_rows = View::static_rows, static_cols = View::static_cols;
  static constexpr std::size_t products = 0, gates = 0;
  View source;

  explicit interleaved_leaf(View v) : source(v) {}
  std::size_t rows() const { return source.rows(); }
  std::size_t cols() const { return source.cols(); }
  template <std::size_t, std::size_t, class Context, bool Whole>
  [[gnu::always_inline]] pack<value_type> value(Context&, place<Whole> at) const {
    return impl::load_register(source, at);
  }
};

/// A matrix in panels, or one half of paired ones. Reads whole registers: the padding is there.
template <class View>
struct panel_leaf : node {
  using value_type = typename View::value_type;
  static constexpr std::size_t static_rows = dynamic, static_cols = dynamic;
  static constexpr std::size_t products = 0, gates = 0;
  View source;

  explicit panel_leaf(View v) : source(v) {}
  std::size_t rows() const { return source.rows(); }
  std::size_t cols() const { return source.cols(); }
  template <std::size_t, std::size_t, class Context, bool Whole>
  [[gnu::always_inline]] pack<value_type> value(Context&, place<Whole> at) const {
    return impl::load_register(source, at);
  }
};

/// The same number everywhere.
template <real T>
struct scalar_leaf : node {
  using value_type = T;
  static constexpr std::size_t static_rows = any_extent, static_cols = any_extent;
  static constexpr std::size_t products = 0, gates = 0;
  T number;

  explicit scalar_leaf(T x) : number(x) {}
  static std::size_t rows() { return any_extent; }
  static std::size_t cols() { return any_extent; }
  template <std::size_t, std::size_t, class Context, bool Whole>
  [[gnu::always_inline]] pack<T> value(Context&, place<Whole>) const {
    return pack<T>(number);
  }
};

/// One row, the same for every row (`Down`: one column, the same for every column); the vector is contiguous.
template <class View, bool Down>
struct broadcast_leaf : node {
  using value_type = typename View::value_type;
  static constexpr std::size_t static_rows = Down ? View::static_cols : any_extent;
  static constexpr std::size_t static_cols = Down ? any_extent : View::static_cols;
  static constexpr std::size_t products = 0, gates = 0;
  View source;

  explicit broadcast_leaf(View v) : source(v) { check_extent("broadcast: rows of the vector", 1, v.rows()); }
  std::size_t rows() const { return Down ? source.cols() : any_extent; }
  std::size_t cols() const { return Down ? any_extent : source.cols(); }
  template <std::size_t, std::size_t, class Context, bool Whole>
  [[gnu::always_inline]] pack<value_type> value(Context&, place<Whole> at) const {
    using V = pack<value_type>;
    if constexpr (Down) return V(*element(at.row));
    return Whole ? V::load(element(at.col)) : V::load_partial(element(at.col), at.n);
  }

 private:
  [[gnu::always_inline]] const value_type* element(std::size_t i) const {
    if constexpr (requires { source.strip_stride(); })
      return source.at(0, i);
    else
      return source.data() + i;
  }
};

/// f applied element by element; f takes and returns packs.
template <class F, expression... Args>
struct map_node : node {
  using value_type = std::common_type_t<typename Args::value_type...>;
  static_assert((std::same_as<value_type, typename Args::value_type> && ...),
                "swiglu: the operands of an elementwise operation differ in their element type");
  static constexpr std::size_t static_rows = [] {
    std::size_t e = any_extent;
    ((e = impl::joined_extent(e, Args::static_rows)), ...);
    return e;
  }();
  static constexpr std::size_t static_cols = [] {
    std::size_t e = any_extent;
    ((e = impl::joined_extent(e, Args::static_cols)), ...);
    return e;
  }();
  static constexpr std::size_t products = (Args::products + ...), gates = (Args::gates + ...);
  F f;
  std::tuple<Args...> args;

  [[gnu::always_inline]] explicit map_node(F function, const Args&... a) : f(function), args(a...) {
    ((void)sizeof(impl::elementwise_rows<static_rows, Args::static_rows>), ...);
    ((void)sizeof(impl::elementwise_columns<static_cols, Args::static_cols>), ...);
    (void)rows(), (void)cols();  // throws on a mismatch
  }
  std::size_t rows() const {
    return std::apply(
        [](const auto&... a) {
          std::size_t e = any_extent;
          ((e = impl::join_at_run_time("rows of an elementwise operation", e, a.rows())), ...);
          return e;
        },
        args);
  }
  std::size_t cols() const {
    return std::apply(
        [](const auto&... a) {
          std::size_t e = any_extent;
          ((e = impl::join_at_run_time("columns of an elementwise operation", e, a.cols())), ...);
          return e;
        },
        args);
  }
  template <std::size_t P, std::size_t G, class Context, bool Whole>
  [[gnu::always_inline]] pack<value_type> value(Context& context, place<Whole> at) const {
    return [&]<std::size_t... Nth>(std::index_sequence<Nth...>) __attribute__((always_inline)) {
      // Braces: the arguments are evaluated from left to right, as the numbering of products and gates assumes.
      const std::tuple<decltype(static_cast<void>(Nth), pack<value_type>())...> values{
          std::get<Nth>(args).template value<P + products_before(Nth), G + gates_before(Nth)>(context, at)...};
      return f(std::get<Nth>(values)...);
    }
    (std::index_sequence_for<Args...>{});
  }

  static constexpr std::size_t products_before(std::size_t i) { return impl::sum_before<Args::products...>(i); }
  static constexpr std::size_t gates_before(std::size_t i) { return impl::sum_before<Args::gates...>(i); }
};

/// What a gate makes of x and its sigmoid pair.
enum class gate_kind { sigmoid, complement, silu, silu_grad };

/// sigmoid, silu or silu_grad of an expression. The kernel computes the sigmoid once for all gates of one argument.
template <gate_kind Kind, expression Arg>
struct gate_node : node {
  using value_type = typename Arg::value_type;
  static constexpr std::size_t static_rows = Arg::static_rows, static_cols = Arg::static_cols;
  static constexpr std::size_t products = Arg::products, gates = Arg::gates + 1;
  Arg arg;

  explicit gate_node(Arg a) : arg(a) {}
  std::size_t rows() const { return arg.rows(); }
  std::size_t cols() const { return arg.cols(); }
  template <std::size_t, std::size_t G, class Context, bool Whole>
  [[gnu::always_inline]] pack<value_type> value(Context& context, place<Whole>) const {
    const auto& gate = context.template gate<G + Arg::gates>();  // numbered after the gates inside the argument
    if constexpr (Kind == gate_kind::sigmoid) return gate.pair.sigmoid;
    if constexpr (Kind == gate_kind::complement) return gate.pair.complement;
    if constexpr (Kind == gate_kind::silu) return silu(gate.x, gate.pair.sigmoid);
    if constexpr (Kind == gate_kind::silu_grad) return silu_grad(gate.x, gate.pair);
  }
};

}  // namespace SWIGLU_ABI
}  // namespace swiglu

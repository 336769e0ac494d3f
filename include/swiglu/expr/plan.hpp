// SPDX-License-Identifier: MIT
#pragma once

// What a kernel computes once although its text says it several times, decided by the compiler: products of the same
// name are one group of accumulators, gates of the same argument share one sigmoid. Occurrences are numbered in the
// order of the text.

#include <array>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <swiglu/expr/assign.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {
namespace impl {

/// Calls f.operator()<P>(product) for every product of e, numbered from First.
template <std::size_t First, class E, class F>
[[gnu::always_inline]] inline void each_product(const E& e, const F& f) {
  if constexpr (requires { E::identity; })
    f.template operator()<First>(e);
  else if constexpr (requires { e.arg; })
    each_product<First>(e.arg, f);
  else if constexpr (requires { e.args; })
    [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
      (each_product<First + E::products_before(Nth)>(std::get<Nth>(e.args), f), ...);
    }
  (std::make_index_sequence<std::tuple_size_v<decltype(e.args)>>{});
}

/// A gate's argument type, and the number of the first product in it.
template <class Arg, std::size_t FirstProduct>
struct gate_entry {
  using type = Arg;
  static constexpr std::size_t first_product = FirstProduct;
};

/// The gates of e in order, inner before outer, as a tuple of gate_entry.
template <std::size_t P, class E>
constexpr auto gates_of(const E*) {
  if constexpr (requires(const E& e) { e.arg; }) {
    using Arg = decltype(E::arg);
    return std::tuple_cat(gates_of<P>(static_cast<const Arg*>(nullptr)), std::tuple<gate_entry<Arg, P>>{});
  } else if constexpr (requires(const E& e) { e.args; }) {
    return []<class... Args, std::size_t... Nth>(const std::tuple<Args...>*, std::index_sequence<Nth...>) {
      return std::tuple_cat(gates_of<P + E::products_before(Nth)>(static_cast<const Args*>(nullptr))...);
    }(static_cast<const decltype(E::args)*>(nullptr), std::make_index_sequence<std::tuple_size_v<decltype(E::args)>>{});
  } else {
    return std::tuple<>{};
  }
}
/// The products of e in order, as a tuple of type_identity.
template <class E>
constexpr auto products_of(const E*) {
  if constexpr (requires { E::identity; }) {
    return std::tuple<std::type_identity<E>>{};
  } else if constexpr (requires(const E& e) { e.arg; }) {
    return products_of(static_cast<const decltype(E::arg)*>(nullptr));
  } else if constexpr (requires(const E& e) { e.args; }) {
    return []<class... Args>(const std::tuple<Args...>*) {
      return std::tuple_cat(products_of(static_cast<const Args*>(nullptr))...);
    }(static_cast<const decltype(E::args)*>(nullptr));
  } else {
    return std::tuple<>{};
  }
}

/// The argument of gate number G of e.
template <std::size_t G, class E>
const auto& gate_argument(const E& e) {
  if constexpr (requires { e.arg; }) {
    if constexpr (G + 1 == E::gates)
      return e.arg;
    else
      return gate_argument<G>(e.arg);
  } else {
    constexpr std::size_t child = [] {
      std::size_t i = 0;
      while (i + 1 < std::tuple_size_v<decltype(E::args)> && E::gates_before(i + 1) <= G) ++i;
      return i;
    }();
    return gate_argument<G - E::gates_before(child)>(std::get<child>(e.args));
  }
}

/// Whether two leaves of one type, two nodes of one type, read the same memory.
template <class E>
[[gnu::always_inline]] inline bool same_source(const E& a, const E& b) {
  if constexpr (requires { a.source; }) {
    const bool same_place = a.source.data() == b.source.data() && a.rows() == b.rows() && a.cols() == b.cols();
    if constexpr (requires { a.source.strip_stride(); })
      return same_place && a.source.strip_stride() == b.source.strip_stride();
    else if constexpr (requires { a.source.block(); })
      return same_place && a.source.pitch() == b.source.pitch() && a.source.block() == b.source.block();
    else
      return same_place && a.source.pitch() == b.source.pitch();
  } else if constexpr (requires { a.leaf; }) {
    return same_source(a.leaf, b.leaf);
  } else if constexpr (requires { a.number; }) {
    return std::memcmp(&a.number, &b.number, sizeof a.number) == 0;  // 0 is not -0
  } else if constexpr (requires { a.arg; }) {
    return same_source(a.arg, b.arg);
  } else if constexpr (requires { a.args; }) {
    return std::is_empty_v<decltype(a.f)>&& [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
      return (same_source(std::get<Nth>(a.args), std::get<Nth>(b.args)) && ...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(a.args)>>{});
  } else {
    return true;  // a product: its group says it
  }
}
/// Whether two products of one type have the same operands.
template <class E>
[[gnu::always_inline]] inline bool same_operands(const E& a, const E& b) {
  return [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
    return ((same_source(std::get<Nth>(a.pairs).left, std::get<Nth>(b.pairs).left) &&
             same_source(std::get<Nth>(a.pairs).right, std::get<Nth>(b.pairs).right)) &&
            ...);
  }
  (std::make_index_sequence<E::terms>{});
}
[[noreturn, gnu::noinline]] inline void refuse_products(std::string_view name) {
  throw std::invalid_argument("swiglu: evaluate: two products named \"" + std::string(name) +
                              "\" have different operands");
}
/// Throws std::invalid_argument if two products of one name and type have different operands.
template <class E>
[[gnu::always_inline]] inline void check_same_product(const E& a, const E& b) {
  if (!same_operands(a, b)) refuse_products(E::identity.view());
}
/// Product number P of an expression.
template <std::size_t P, class E>
[[gnu::always_inline]] inline const auto& product_of(const E& e) {
  if constexpr (requires { E::identity; }) {
    return e;
  } else if constexpr (requires { e.arg; }) {
    return product_of<P>(e.arg);
  } else {
    constexpr std::size_t child = [] {
      std::size_t i = 0;
      while (i + 1 < std::tuple_size_v<decltype(E::args)> && E::products_before(i + 1) <= P) ++i;
      return i;
    }();
    return product_of<P - E::products_before(child)>(std::get<child>(e.args));
  }
}

/// For each product of a list the number of the first one of the same name.
template <class... P>
consteval auto first_products(const std::tuple<std::type_identity<P>...>*) {
  std::array<std::size_t, sizeof...(P)> first{};
  [[maybe_unused]] const auto find = [&]<class Product>(std::type_identity<Product>, std::size_t own) {
    std::size_t other = 0;
    first[own] = own;
    const auto compare = [&]<class Other>(std::type_identity<Other>) {
      if constexpr (!Product::identity.empty() && Product::identity.view() == Other::identity.view()) {
        static_assert(std::same_as<Product, Other>,
                      "swiglu: two products of one kernel have the same name but not the same operands");
        if (other < first[own]) first[own] = other;
      }
      ++other;
    };
    (compare(std::type_identity<P>{}), ...);
  };
  std::size_t own = 0;
  (find(std::type_identity<P>{}, own++), ...);
  return first;
}

/// For each gate of a list the number of the first one with the same argument, given the groups of the products.
/// `Shared`: arguments of one type are taken to read the same memory; otherwise only products are known to be the same.
template <bool Shared, std::size_t Products, class... G>
consteval auto first_gates(const std::array<std::size_t, Products>& group, const std::tuple<G...>*) {
  std::array<std::size_t, sizeof...(G)> first{};
  [[maybe_unused]] const auto find = [&]<class Gate>(Gate, std::size_t own) {
    std::size_t other = 0;
    first[own] = own;
    const auto compare = [&]<class Other>(Other) {
      if constexpr (std::same_as<typename Gate::type, typename Other::type>) {
        bool same = Shared || requires { Gate::type::identity; };
        for (std::size_t p = 0; p < Gate::type::products; ++p)
          same = same && group[Gate::first_product + p] == group[Other::first_product + p];
        if (same && other < first[own]) first[own] = other;
      }
      ++other;
    };
    (compare(G{}), ...);
  };
  std::size_t own = 0;
  (find(G{}, own++), ...);
  return first;
}

/// The numbering of the products and gates of several expressions in one kernel.
template <class... E>
struct kernel_text {
  static constexpr std::size_t products = (E::products + ...), gates = (E::gates + ...);
  static constexpr std::size_t products_before(std::size_t i) { return sum_before<E::products...>(i); }
  static constexpr std::size_t gates_before(std::size_t i) { return sum_before<E::gates...>(i); }
  /// The number of the expression that gate number g is in.
  static constexpr std::size_t assignment_of_gate(std::size_t g) {
    std::size_t i = 0;
    while (i + 1 < sizeof...(E) && gates_before(i + 1) <= g) ++i;
    return i;
  }
  /// Product number P of the kernel, given its assignments.
  template <std::size_t P, class Assignments>
  [[gnu::always_inline]] static const auto& nth_product(const Assignments& assigned) {
    constexpr std::size_t i = [] {
      std::size_t n = 0;
      while (n + 1 < sizeof...(E) && products_before(n + 1) <= P) ++n;
      return n;
    }();
    return product_of<P - products_before(i)>(std::get<i>(assigned).from);
  }
  using product_list = decltype(std::tuple_cat(products_of(static_cast<const E*>(nullptr))...));
};
template <class... E, std::size_t... Nth>
constexpr auto gates_of_all(std::index_sequence<Nth...>) {
  return std::tuple_cat(gates_of<kernel_text<E...>::products_before(Nth)>(static_cast<const E*>(nullptr))...);
}

/// What one kernel computes once. `Shared`: see first_gates; the evaluator has looked.
template <bool Shared, class... E>
struct kernel_plan : kernel_text<E...> {
  using typename kernel_text<E...>::product_list;
  using kernel_text<E...>::products;
  using gate_list = decltype(gates_of_all<E...>(std::index_sequence_for<E...>{}));

  /// For each product the number of the first one that is the same.
  static constexpr std::array<std::size_t, products> first_product =
      first_products(static_cast<const product_list*>(nullptr));
  /// For each product its group of accumulators.
  static constexpr std::array<std::size_t, products> group = [] {
    std::array<std::size_t, products> g{};
    std::size_t next = 0;
    for (std::size_t p = 0; p < products; ++p) g[p] = first_product[p] == p ? next++ : g[first_product[p]];
    return g;
  }();
  static constexpr std::size_t groups = [] {
    std::size_t n = 0;
    for (std::size_t p = 0; p < products; ++p) n += first_product[p] == p;
    return n;
  }();
  /// For each gate the number of the first one with the same argument.
  static constexpr auto first_gate = first_gates<Shared>(group, static_cast<const gate_list*>(nullptr));
};

}  // namespace impl
}  // namespace SWIGLU_ABI
}  // namespace swiglu

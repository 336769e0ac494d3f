// SPDX-License-Identifier: MIT
#pragma once

// evaluate(a <<= ..., b <<= ...): one kernel. All right-hand sides are computed from the old values, register by
// register; with products, they are the epilogue of the contraction that computes all products side by side.

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <swiglu/exec/serial.hpp>
#include <swiglu/expr/alias.hpp>
#include <swiglu/expr/direct.hpp>
#include <swiglu/expr/kernel.hpp>
#include <swiglu/expr/product_operands.hpp>
#include <swiglu/expr/scratch.hpp>
#include <swiglu/gemm/contract.hpp>
#include <swiglu/gemm/stream.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {
namespace impl {

template <std::size_t First, std::size_t Other>
struct kernel_rows {
  static_assert(may_equal(First, Other), "swiglu: the destinations of one evaluate differ in their rows");
};
template <std::size_t First, std::size_t Other>
struct kernel_columns {
  static_assert(may_equal(First, Other), "swiglu: the destinations of one evaluate differ in their columns");
};

template <class Plan, real T, executor X, class... Assigned>
void run_elementwise(resources<T, X> on, const Assigned&... assigned) {
  constexpr bool by_column = (reads_transposed<typename Assigned::expression_type> || ...);
  const auto& first = std::get<0>(std::tie(assigned...)).to;
  in_parts(on.threads, first.rows(), 16, [&](std::size_t, std::size_t from, std::size_t to) {
    for (std::size_t r = from; r < to; r += 16)
      write_tile<Plan, by_column>(product_tile<T>{r, std::min<std::size_t>(16, to - r), 0, first.cols(), {}, {}},
                                  assigned...);
  });
}

template <class Plan, real T, executor X, class... Assigned>
void run_products(resources<T, X> on, const Assigned&... assigned) {
  static_assert(Plan::groups <= most_groups, "swiglu: too many different products in one evaluate (at most 8)");
  product_operands<Plan, T, Assigned...> operands(assigned...);
  const std::size_t threads = on.threads.threads();
  const contraction_plan<T> plan(operands.shape(), select_kernel<T, Plan::groups>, threads, on.caches);
  const stream_plan<T> few_rows(operands.shape(), on.caches);
  // Memory that serves the next call as well, which may have fewer rows.
  const std::size_t streaming = few_rows.possible() ? std::min(threads, few_rows.strips()) * few_rows.scratch() : 0;
  T* memory =
      on.memory.reserve(operands.copied() + std::max(streaming, std::min(threads, plan.strips()) * plan.scratch()));
  if (on.memory.measuring()) return;
  operands.copy_left(memory, on.threads);  // the plans refer to the operands: they see where the copies are

  const tile_writer<Plan, T, Assigned...> write{{assigned...}};
  const auto run = [&, own = memory + operands.copied()](const auto& how) {
    in_parts(on.threads, how.strips(), 1, [&](std::size_t part, std::size_t first, std::size_t last) {
      how.run(first, last, epilogue_ref<T>(write), own + part * how.scratch());
    });
  };
  if (few_rows.fits())
    run(few_rows);
  else
    run(plan);
}

template <class Plan, real T, executor X, class... Assigned>
[[gnu::always_inline]] inline void run_direct(resources<T, X> on, const Assigned&... assigned) {
  using kernel = direct_kernel<Plan, T, Assigned...>;
  T* memory = on.memory.reserve(kernel::scratch);
  if (on.memory.measuring()) return;
  const kernel k(memory, assigned...);
  in_parts(on.threads, kernel::strips, 1,
           [&](std::size_t, std::size_t first, std::size_t last) { k.run(first, last); });
}

/// Whether gates with arguments of the same type read the same memory, as the shared plan assumes.
template <class... Assigned>
bool gates_coincide(const Assigned&... assigned) {
  using plan = kernel_plan<true, typename Assigned::expression_type...>;
  const auto argument = [&]<std::size_t G>() -> const auto& {
    constexpr std::size_t i = plan::assignment_of_gate(G);
    return gate_argument<G - plan::gates_before(i)>(std::get<i>(std::tie(assigned...)).from);
  };
  return [&]<std::size_t... G>(std::index_sequence<G...>) {
    return (same_source(argument.template operator()<G>(), argument.template operator()<plan::first_gate[G]>()) && ...);
  }
  (std::make_index_sequence<plan::gates>{});
}

template <class Plan, real T, executor X, class... Assigned>
[[gnu::always_inline]] inline void run_kernel_as(resources<T, X> on, const Assigned&... assigned) {
  if constexpr (runs_direct<Plan>)
    run_direct<Plan>(on, assigned...);
  else if constexpr (Plan::products > 0)
    run_products<Plan>(on, assigned...);
  else if (!on.memory.measuring())
    run_elementwise<Plan>(on, assigned...);
}

template <real T, executor X, class... Assigned>
[[gnu::always_inline]] inline void run_kernel(resources<T, X> on, const Assigned&... assigned) {
  using shared = kernel_plan<true, typename Assigned::expression_type...>;
  using separate = kernel_plan<false, typename Assigned::expression_type...>;
  if constexpr (shared::first_gate == separate::first_gate) {
    run_kernel_as<shared>(on, assigned...);
  } else {
    if (gates_coincide(assigned...))
      run_kernel_as<shared>(on, assigned...);
    else
      run_kernel_as<separate>(on, assigned...);
  }
  if (!on.memory.measuring()) (clear_padding(assigned.to), ...);
}

/// Runs the kernel into fresh memory, then copies: for destinations that overlap what is read.
template <real T, executor X, class... Assigned>
void run_through_temporaries(resources<T, X> on, const Assigned&... assigned) {
  const std::size_t rows = std::get<0>(std::tie(assigned...)).to.rows();
  const std::size_t cols = std::get<0>(std::tie(assigned...)).to.cols();
  std::array<tensor<T, dynamic, dynamic>, sizeof...(Assigned)> results;
  for (auto& r : results) r = tensor<T, dynamic, dynamic>(rows, cols);
  [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
    run_kernel(on, (noalias(results[Nth]) <<= assigned.from)...);
    const auto copy = [&](const auto& a, const auto& result) {
      using a_type = std::remove_cvref_t<decltype(a)>;
      const auto leaf = as_node(result);
      run_kernel(on,
                 assignment<typename a_type::view_type, std::remove_const_t<decltype(leaf)>, a_type::accumulate, true>{
                     a.to, leaf});
    };
    (copy(assigned, results[Nth]), ...);
  }
  (std::index_sequence_for<Assigned...>{});
}

[[noreturn, gnu::noinline]] inline void refuse_destinations(std::size_t first, std::size_t second) {
  throw std::invalid_argument("swiglu: evaluate: destinations " + std::to_string(first) + " and " +
                              std::to_string(second) + " overlap");
}

template <class Assigned>
inline constexpr bool is_assignment = false;
template <class V, class E, bool Assigned, bool N>
inline constexpr bool is_assignment<assignment<V, E, Assigned, N>> = true;

}  // namespace impl

/// Runs the assignments as one kernel on borrowed resources. All destinations have the same shape. Right-hand sides see
/// the old values of all destinations; where a destination overlaps what is read elsewhere the kernel goes through
/// temporary memory, unless the destination is marked noalias. Products of depth 0 are 0.
/// Throws shape_error or std::invalid_argument before anything is written.
template <real T, executor X, class... Assigned>
  requires(sizeof...(Assigned) > 0 && (impl::is_assignment<Assigned> && ...))
[[gnu::always_inline]] inline void evaluate(resources<T, X> on, const Assigned&... assigned) {
  using first_view = typename std::tuple_element_t<0, std::tuple<Assigned...>>::view_type;
  static_assert((std::same_as<T, typename Assigned::value_type> && ...),
                "swiglu: the assignments of one evaluate differ in their element type");
  ((void)sizeof(impl::kernel_rows<first_view::static_rows, Assigned::view_type::static_rows>), ...);
  ((void)sizeof(impl::kernel_columns<first_view::static_cols, Assigned::view_type::static_cols>), ...);
  const auto& to = std::get<0>(std::tie(assigned...)).to;
  (check_extent("evaluate: rows of a destination", to.rows(), assigned.to.rows()), ...);
  (check_extent("evaluate: columns of a destination", to.cols(), assigned.to.cols()), ...);
  if (!on.memory.measuring()) {
    const std::array<impl::footprint, sizeof...(Assigned)> written{impl::footprint_of(assigned.to)...};
    for (std::size_t i = 0; i < written.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (impl::overlap(written[i], written[j])) impl::refuse_destinations(j, i);
    if constexpr (!(Assigned::no_alias && ...)) {
      std::size_t i = 0;
      const auto unsafe = [&](const auto& a) {
        const impl::footprint to_i = written[i++];
        return !a.no_alias && (impl::disturbs(to_i, assigned.from) || ...);
      };
      if ((unsafe(assigned) || ...)) return impl::run_through_temporaries(on, assigned...);
    }
  }
  impl::run_kernel(on, assigned...);
}

/// The same on the calling thread with scratch memory of its own.
template <class... Assigned>
  requires(sizeof...(Assigned) > 0 && (impl::is_assignment<Assigned> && ...))
void evaluate(const Assigned&... assigned) {
  using T = typename std::tuple_element_t<0, std::tuple<Assigned...>>::value_type;
  scratch<T> memory;
  serial threads;
  evaluate(resources<T, serial>{memory, threads}, assigned...);
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

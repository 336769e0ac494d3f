// SPDX-License-Identifier: MIT
#pragma once

// The way of a kernel whose matrices have compile-time shapes and fit into the cache together: products accumulate in
// registers straight from row-major memory, and the assignments are applied to those registers. No panels, no tile in
// memory, no blocking; only what is transposed on the right, or has gaps between its rows, is copied first.

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include <swiglu/exec/executor.hpp>
#include <swiglu/expr/kernel.hpp>
#include <swiglu/expr/scratch.hpp>
#include <swiglu/gemm/blocking.hpp>
#include <swiglu/gemm/micro_kernel.hpp>
#include <swiglu/gemm/pack.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {
namespace impl {

/// A matrix in row-major memory [rows, cols], both static; `transposed`: the operand is its transpose.
template <class Leaf>
struct direct_matrix {
  static constexpr bool is_static = false;
};
template <class View>
struct direct_matrix<view_leaf<View>> {
  static constexpr std::size_t rows = View::static_rows, cols = View::static_cols;
  static constexpr bool is_static = rows != dynamic && cols != dynamic && rows > 0 && cols > 0, transposed = false;
};
template <class Leaf>
struct direct_matrix<transposed_leaf<Leaf>> : direct_matrix<Leaf> {
  static constexpr bool transposed = true;
};

/// One term of a product: how its operands are read, in elements.
template <class Pair>
struct direct_term {
  using left = direct_matrix<decltype(Pair::left)>;
  using right = direct_matrix<decltype(Pair::right)>;
  static constexpr bool is_static = left::is_static && right::is_static;
};
template <class Pair>
requires direct_term<Pair>::is_static struct direct_layout {
  using T = typename decltype(Pair::left)::value_type;
  using left = direct_matrix<decltype(Pair::left)>;
  using right = direct_matrix<decltype(Pair::right)>;
  static constexpr std::size_t size = pack<T>::size;
  static constexpr std::size_t depth = left::transposed ? left::rows : left::cols;
  static constexpr std::size_t cols = right::transposed ? right::rows : right::cols;
  static constexpr std::size_t left_row = left::transposed ? 1 : left::cols;   // from one row to the next
  static constexpr std::size_t left_step = left::transposed ? left::cols : 1;  // from one k to the next
  /// Packed: register columns one after another, each [depth][size]. Otherwise read where it is.
  static constexpr bool packed = right::transposed || cols % size != 0;
  static constexpr std::size_t right_step = packed ? size : cols;
  static constexpr std::size_t right_column = packed ? depth * size : size;
  static constexpr std::size_t left_elements = round_up(left::rows * left::cols, alignment / sizeof(T));
  static constexpr std::size_t right_elements = round_up(depth * round_up(cols, size), alignment / sizeof(T));
};

/// The terms of a product.
template <class Product>
struct direct_terms {
  static constexpr bool is_static = false;
  static constexpr std::size_t elements = 0;
};
template <name Name, class... Pairs>
  requires(direct_term<Pairs>::is_static&&...)
struct direct_terms<product_node<Name, Pairs...>> {
  static constexpr bool is_static = true;
  using layouts = std::tuple<direct_layout<Pairs>...>;
  using lefts = std::tuple<typename direct_layout<Pairs>::left...>;
  /// Memory for copies of all operands.
  static constexpr std::size_t elements =
      ((direct_layout<Pairs>::left_elements + direct_layout<Pairs>::right_elements) + ...);
};

/// Whether a kernel goes this way: everything that it multiplies is static and fits into half of L2.
template <class Plan>
inline constexpr bool runs_direct = []<class... P>(const std::tuple<std::type_identity<P>...>*) {
  if constexpr (sizeof...(P) == 0 || !(direct_terms<P>::is_static && ...))
    return false;
  else
    return Plan::groups <= most_vectors &&
           ((direct_terms<P>::elements * sizeof(typename P::value_type)) + ...) <= default_caches.l2 / 2;
}(static_cast<const typename Plan::product_list*>(nullptr));

/// One kernel, its operands copied where they have to be, ready to run.
template <class Plan, real T, class... Assigned>
class direct_kernel {
  using V = pack<T>;
  using list = typename Plan::product_list;
  static constexpr std::size_t size = V::size, groups = Plan::groups;
  /// The first product of group g.
  static constexpr std::size_t first_of(std::size_t g) {
    std::size_t p = 0;
    while (Plan::group[p] != g) ++p;
    return p;
  }
  template <std::size_t G>
  using product = typename std::tuple_element_t<first_of(G), list>::type;
  template <std::size_t G, std::size_t Term>
  using layout = std::tuple_element_t<Term, typename direct_terms<product<G>>::layouts>;
  template <std::size_t... G>
  static constexpr std::size_t count_terms(std::index_sequence<G...>) {
    return std::max({product<G>::terms...});
  }
  template <std::size_t... G>
  static constexpr std::size_t count_elements(std::index_sequence<G...>) {
    return (direct_terms<product<G>>::elements + ...);
  }
  template <std::size_t... G>
  static constexpr bool equal_lefts(std::index_sequence<G...>) {
    return (std::same_as<typename direct_terms<product<G>>::lefts, typename direct_terms<product<0>>::lefts> && ...);
  }
  using all_groups = std::make_index_sequence<groups>;
  static constexpr std::size_t most_terms = count_terms(all_groups{});
  /// Whether the groups have left operands of the same types: then they may be the same matrices.
  static constexpr bool shared_types = equal_lefts(all_groups{});

  static constexpr std::size_t rows = product<0>::static_rows, cols = product<0>::static_cols;
  /// Registers of a row for each group; tiles as tall as the registers allow, and of even height.
  static constexpr std::size_t vectors = groups == 1 && cols >= 2 * size ? 2 : 1;
  static constexpr std::size_t tile_height(std::size_t of_a_row) {
    const std::size_t spare = vector_registers == 32 ? 3 : 1;
    const std::size_t most = std::clamp<std::size_t>((vector_registers - spare - of_a_row) / of_a_row, 1, 16);
    return ceil_div(rows, ceil_div(rows, most));
  }

 public:
  static constexpr std::size_t strips = ceil_div(cols, vectors* size);
  /// Elements of memory for the operands copied, at most.
  static constexpr std::size_t scratch = count_elements(all_groups{});

  [[gnu::always_inline]] direct_kernel(T* memory, const Assigned&... assigned) : assigned_(assigned...) {
    [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
      (each_product<Plan::products_before(Nth)>(
           assigned.from, [&]<std::size_t P>(const auto& e) __attribute__((always_inline)) { add<P>(e, memory); }),
       ...);
    }
    (std::index_sequence_for<Assigned...>{});
    if constexpr (groups > 1 && shared_types)
      for (std::size_t i = 0; i < product<0>::terms; ++i)
        for (std::size_t g = 1; g < groups; ++g) shared_ = shared_ && left_[g][i] == left_[0][i];
  }

  /// Computes strips first .. last - 1. Parts may run concurrently.
  void run(std::size_t first, std::size_t last) const {
    constexpr std::size_t whole = cols / (vectors * size);
    for (std::size_t s = first; s < last; ++s) {
      const std::size_t col = s * vectors * size;
      if (s < whole) {
        rows_of_strip<vectors, true>(col);
      } else {
        if constexpr (vectors == 2 && cols % (2 * size) > size) rows_of_strip<1, true>(col);
        if constexpr (cols % size != 0)
          rows_of_strip<1, false>(cols / size * size);
        else if constexpr (vectors == 2 && cols % (2 * size) == size)
          rows_of_strip<1, true>(col);
      }
    }
  }

 private:
  template <std::size_t P, class E>
  [[gnu::always_inline]] void add(const E& e, T*& memory) {
    if constexpr (Plan::first_product[P] == P) {
      [&]<std::size_t... Term>(std::index_sequence<Term...>) {
        (add_term<Plan::group[P], Term>(std::get<Term>(e.pairs), memory), ...);
      }
      (std::make_index_sequence<E::terms>{});
    } else {
      check_same_product(Plan::template nth_product<Plan::first_product[P]>(assigned_), e);
    }
  }
  template <std::size_t G, std::size_t Term, class Pair>
  [[gnu::always_inline]] void add_term(const Pair& pair, T*& memory) {
    using L = layout<G, Term>;
    const auto left = matrix_of_leaf(pair.left);
    const auto right = matrix_of_leaf(pair.right);
    depth_[G][Term] = L::depth;
    left_[G][Term] = left.data();
    if (left.pitch() != L::left::cols) {
      for (std::size_t r = 0; r < L::left::rows; ++r)
        std::copy_n(left.data() + r * left.pitch(), L::left::cols, memory + r * L::left::cols);
      left_[G][Term] = std::exchange(memory, memory + L::left_elements);
    }
    right_[G][Term] = right.data();
    if (L::packed) {
      const right_operand<T> from{right.data(), right.pitch(), 0, L::right::transposed};
      for (std::size_t c = 0; c < L::cols; c += size)
        pack_register_column(from, 0, L::depth, c, L::cols, memory + c * L::depth, size);
    } else if (right.pitch() != L::cols) {
      for (std::size_t k = 0; k < L::depth; ++k)
        std::copy_n(right.data() + k * right.pitch(), L::cols, memory + k * L::cols);
    } else {
      return;
    }
    right_[G][Term] = std::exchange(memory, memory + L::right_elements);
  }
  template <class View>
  static const View& matrix_of_leaf(const view_leaf<View>& e) {
    return e.source;
  }
  template <class Leaf>
  static const auto& matrix_of_leaf(const transposed_leaf<Leaf>& e) {
    return e.leaf.source;
  }

  template <std::size_t Vectors, bool Whole>
  void rows_of_strip(std::size_t col) const {
    constexpr std::size_t height = tile_height(groups * Vectors), whole = rows / height * height;
    for (std::size_t row = 0; row < whole; row += height) tile<height, Vectors, Whole>(row, col);
    if constexpr (whole < rows) tile<rows - whole, Vectors, Whole>(whole, col);
  }

  /// Products of one register of the destinations, where the assignments expect them.
  struct finished {
    std::array<V, groups> value;
    template <std::size_t G>
    [[gnu::always_inline]] V get(std::size_t, std::size_t) const {
      return value[G];
    }
  };

  template <std::size_t Rows, std::size_t Vectors, bool Whole>
  [[gnu::noinline]] void tile(std::size_t row, std::size_t col) const {
    constexpr all_groups all{};
    V sum[Rows][groups * Vectors];
    each_register<Rows, groups * Vectors>([&]<std::size_t R, std::size_t C>()
                                              __attribute__((always_inline)) { sum[R][C] = V(T(0)); });
    const auto apart = [&]<std::size_t... G>(std::index_sequence<G...>) __attribute__((always_inline)) {
      (add_terms<Rows, Vectors>(sum, row, col, std::index_sequence<G>{}), ...);
    };
    if constexpr (!shared_types)
      apart(all);
    else if (shared_)
      add_terms<Rows, Vectors>(sum, row, col, all);
    else
      apart(all);
    // A copy of the assignments: the compiler cannot know that storing a register does not change those of the kernel.
    const std::tuple<Assigned...> assigned = assigned_;
    constexpr std::size_t at_once = registers_at_once<Plan>, whole = Rows / at_once, rest = Rows % at_once;
    each_register<whole, Vectors>([&]<std::size_t R, std::size_t C>() __attribute__((always_inline)) {
      write_rows<at_once, R * at_once, C, Vectors, Whole>(sum, row, col, assigned, all);
    });
    if constexpr (rest > 0)
      each_register<1, Vectors>([&]<std::size_t, std::size_t C>() __attribute__((always_inline)) {
        write_rows<rest, Rows - rest, C, Vectors, Whole>(sum, row, col, assigned, all);
      });
  }

  /// The assignments to N rows of the tile from row First on, in one register column.
  template <std::size_t N, std::size_t First, std::size_t C, std::size_t Vectors, bool Whole, std::size_t Rows,
            std::size_t... G>
  [[gnu::always_inline]] static void write_rows(const V (&sum)[Rows][groups * Vectors], std::size_t row,
                                                std::size_t col, const std::tuple<Assigned...>& assigned,
                                                std::index_sequence<G...>) {
    [&]<std::size_t... R, std::size_t... Nth>(std::index_sequence<R...>, std::index_sequence<Nth...>)
        __attribute__((always_inline)) {
      const auto product = [&]<std::size_t Row>() __attribute__((always_inline)) {
        return finished{{sum[First + Row][G * Vectors + C]...}};
      };
      const std::array<finished, N> products{product.template operator()<R>()...};
      const std::array<place<Whole>, N> at{
          place<Whole>{row + First + R, col + C * size, Whole ? size : cols % size}...};
      std::array<gate_memory<Plan, T>, N> gates;
      const auto compute = [&]<std::size_t Gate, std::size_t P, std::size_t FirstGate>(const auto& argument)
          __attribute__((always_inline)) {
        const auto value = [&]<std::size_t Row>() __attribute__((always_inline)) {
          register_context<Plan, T, finished> context{products[Row], gates[Row]};
          return argument.template value<P, FirstGate>(context, at[Row]);
        };
        const pack_group<T, N> x(std::array<V, N>{value.template operator()<R>()...});
        const auto pair = sigmoid_and_complement(x);
        ((gates[R][Gate] = {x.part[R], {pair.sigmoid.part[R], pair.complement.part[R]}}), ...);
      };
      each_gate<Plan>(compute, std::get<Nth>(assigned)...);
      (write_register<Plan, T>(register_context<Plan, T, finished>{products[R], gates[R]}, at[R],
                               std::get<Nth>(assigned)...),
       ...);
    }
    (std::make_index_sequence<N>{}, std::index_sequence_for<Assigned...>{});
  }

  /// Accumulates the terms of groups G..., which share their left operands.
  template <std::size_t Rows, std::size_t Vectors, std::size_t... G>
  [[gnu::always_inline]] void add_terms(V (&sum)[Rows][groups * Vectors], std::size_t row, std::size_t col,
                                        std::index_sequence<G...>) const {
    constexpr std::size_t first = std::min({G...});
    [&]<std::size_t... Term>(std::index_sequence<Term...>) __attribute__((always_inline)) {
      (add_term_of<Rows, Vectors, Term>(sum, row, col, std::index_sequence<G...>{}), ...);
    }
    (std::make_index_sequence<product<first>::terms>{});
  }
  template <std::size_t Rows, std::size_t Vectors, std::size_t Term, std::size_t... G>
  [[gnu::always_inline]] void add_term_of(V (&sum)[Rows][groups * Vectors], std::size_t row, std::size_t col,
                                          std::index_sequence<G...>) const {
    constexpr std::size_t first = std::min({G...}), n = sizeof...(G) * Vectors;
    using L = layout<first, Term>;
    const T* a = left_[first][Term] + row * L::left_row;
    // A constant number of steps would be unrolled until the accumulators spill.
    for (std::size_t k = 0, depth = depth_[first][Term]; k < depth; ++k, a += L::left_step) {
      V right[n], x;
      std::size_t v = 0;
      const auto load = [&]<std::size_t Group>() __attribute__((always_inline)) {
        using R = layout<Group, Term>;
        const T* b = right_[Group][Term] + col / size * R::right_column + k * R::right_step;
        each_register<1, Vectors>([&]<std::size_t, std::size_t C>() __attribute__((always_inline)) {
          right[v++] = V::load(b + C * R::right_column);
        });
      };
      (load.template operator()<G>(), ...);
      each_register<Rows, n>([&]<std::size_t R, std::size_t C>() __attribute__((always_inline)) {
        if constexpr (C == 0) x = V(a[R * L::left_row]);
        sum[R][first * Vectors + C] = fma(x, right[C], sum[R][first * Vectors + C]);
      });
    }
  }

  std::tuple<const Assigned&...> assigned_;
  const T* left_[groups][most_terms] = {};
  const T* right_[groups][most_terms] = {};
  std::size_t depth_[groups][most_terms] = {};
  bool shared_ = true;
};

}  // namespace impl
}  // namespace SWIGLU_ABI
}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// What a caller hands to the layer, checked and brought into one form: tensors and views of any rank become matrices
// with run-time extents, so that the kernels are compiled once however the layer is called. A shape that the types
// contradict does not compile; one that the values contradict throws shape_error.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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
                "numbers); gate and up are [hidden, intermediate], down is [intermediate, hidden], with layout out_in "
                "the other way round, and gate_up has twice the outputs of gate");
};

template <class G>
inline constexpr bool is_gradient_target = false;
template <class G, bool Accumulate>
inline constexpr bool is_gradient_target<gradient_target<G, Accumulate>> = true;

/// A tensor or view, its shape checked, as the matrix type `To`.
template <class To, class M>
[[gnu::always_inline]] inline To matrix_as(M& m) {
  using from = std::remove_pointer_t<decltype(m.data())>;
  static_assert(std::is_const_v<typename To::element_type> || !std::is_const_v<from>,
                "swiglu: mlp: out, grad_x and the gradients have to be writable");
  typename To::extents_type shape{};
  if constexpr (To::extents_type::dynamic_rank == 2) shape = {m.rows(), m.cols()};
  return To(m.data(), shape, m.pitch());
}

/// x, out, grad_out or grad_x: [rows, Hidden].
template <class To, std::size_t Hidden, class Activation>
[[gnu::always_inline]] inline To activation(std::string_view where, Activation& a, std::size_t rows) {
  (void)sizeof(columns_and_hidden<Activation::static_cols, Hidden>);
  check_extent(where, "columns", Hidden, a.cols());
  check_extent(where, "rows", rows, a.rows());
  return matrix_as<To>(a);
}

/// A weight: [Rows, Columns].
template <class To, std::size_t Rows, std::size_t Columns, class M>
[[gnu::always_inline]] inline To parameter(std::string_view where, const M& p) {
  (void)sizeof(shape_and_layer<M::static_rows, M::static_cols, Rows, Columns>);
  check_extent(where, "rows", Rows, p.rows());
  check_extent(where, "columns", Columns, p.cols());
  return matrix_as<To>(p);
}

template <class W, weight_layout L>
struct weights_and_layout {
  static constexpr bool packed = requires(W & w) { w.gate_up, w.down; };
  static constexpr bool separate = requires(W & w) { w.gate, w.up, w.down; };
  static_assert(
      L.is_packed() ? packed : separate,
      "swiglu: mlp: the layout of the layer (second argument) packs gate and up in one matrix, and the weights "
      "or gradients (first argument) have no gate_up, or it does not, and they have no gate and up");
};

/// The weights in memory, their shapes checked, with the extents that the kernels are compiled for.
template <class View, dims D, class W>
[[gnu::always_inline]] inline View weights_in_memory(const W& w) {
  (void)sizeof(weights_and_layout<const W, D.layout>);
  (void)sizeof(layout_detail::layout_of_weights<W, D.layout>);
  using s = layout_detail::shapes<D.layout, D.hidden, D.local_intermediate()>;
  if constexpr (D.layout.is_packed()) {
    const View all{parameter<decltype(View::gate_up), s::pair_rows, s::pair_cols>("w.gate_up", w.gate_up),
                   parameter<decltype(View::down), s::cols, s::rows>("w.down", w.down)};
    (void)gate_of<D.layout>(all);  // throws if the pitch does not allow for it
    return all;
  } else {
    return {parameter<decltype(View::gate), s::rows, s::cols>("w.gate", w.gate),
            parameter<decltype(View::up), s::rows, s::cols>("w.up", w.up),
            parameter<decltype(View::down), s::cols, s::rows>("w.down", w.down)};
  }
}

/// The weights as the mathematics has them, [inputs, outputs], for kernels to read or (`Target`) to write, however they
/// lie in memory.
template <class Gate, class Down>
struct weight_operands {
  Gate gate, up;
  Down down;
};
template <bool Target, weight_layout L, class W>
[[gnu::always_inline]] inline auto as_operands(const W& w) {
  const auto turned = [](auto m) __attribute__((always_inline)) {
    if constexpr (!L.is_out_in())
      return m;
    else if constexpr (Target)
      return transposed_destination(m);
    else
      return transpose(m);
  };
  const auto gate = turned(gate_of<L>(w)), up = turned(up_of<L>(w));
  const auto down = turned(down_of<L>(w));
  return weight_operands<std::remove_const_t<decltype(gate)>, std::remove_const_t<decltype(down)>>{gate, up, down};
}

/// Rows of a tensor that a rank gets: all, or its share of them.
inline std::size_t rows_of(std::string_view where, std::size_t rows, reduction how, std::size_t ranks) {
  if (!scatters(how)) return rows;
  return shard_detail::equal_part(where, "rows to scatter", rows, ranks);
}

/// The gradient of a weight [Rows, Columns] that is summed over `ranks` ranks.
template <std::size_t Rows, std::size_t Columns, reduction How, bool Accumulate, class M>
auto gradient(std::string_view where, M& g, std::size_t ranks) {
  static_assert(How != reduction::sequence_parallel, "swiglu: mlp: sequence_parallel is a choice for grad_x only");
  if constexpr (How != reduction::reduce_scatter)
    (void)sizeof(shape_and_layer<M::static_rows, M::static_cols, Rows, Columns>);
  check_extent(where, "rows", rows_of(where, Rows, How, ranks), g.rows());
  check_extent(where, "columns", Columns, g.cols());
  using T = typename M::value_type;
  return staged_tensor<T>(matrix_as<view<T, dynamic, dynamic>>(g), How, ranks, Accumulate);
}

/// The gradients of the weights on their way to the caller, matrix by matrix as they lie in memory, and the names that
/// collectives know them by.
template <real T, dims D>
struct gradient_matrices {
  static constexpr std::size_t count = D.layout.is_packed() ? 2 : 3;
  std::array<staged_tensor<T>, count> matrix;

  static constexpr std::array<std::string_view, count> names() {
    if constexpr (D.layout.is_packed())
      return {"gate_up", "down"};
    else
      return {"gate", "up", "down"};
  }
  std::array<std::span<T>, count> full() const {
    std::array<std::span<T>, count> all;
    for (std::size_t i = 0; i < count; ++i) all[i] = matrix[i].full();
    return all;
  }
  /// Where the kernels write. View: weights_view.
  template <class View>
  View target() const {
    if constexpr (D.layout.is_packed())
      return {matrix[0].target(), matrix[1].target()};
    else
      return {matrix[0].target(), matrix[1].target(), matrix[2].target()};
  }
};
template <real T, dims D, reduction How, bool Accumulate, class G>
gradient_matrices<T, D> gradients(G& g, std::size_t ranks) {
  (void)sizeof(weights_and_layout<G, D.layout>);
  (void)sizeof(layout_detail::layout_of_weights<G, D.layout>);
  using s = layout_detail::shapes<D.layout, D.hidden, D.local_intermediate()>;
  const auto down = [&] {
    return gradient<s::cols, s::rows, How, Accumulate>("backward: gradient of down", g.down, ranks);
  };
  if constexpr (D.layout.is_packed()) {
    gradient_matrices<T, D> all{
        {gradient<s::pair_rows, s::pair_cols, How, Accumulate>("backward: gradient of gate_up", g.gate_up, ranks),
         down()}};
    if (!all.matrix[0].staged()) (void)layout_detail::half_of<D.layout, 0>(all.matrix[0].to());
    return all;
  } else {
    return {{gradient<s::rows, s::cols, How, Accumulate>("backward: gradient of gate", g.gate, ranks),
             gradient<s::rows, s::cols, How, Accumulate>("backward: gradient of up", g.up, ranks), down()}};
  }
}

template <class Result, class Input>
[[gnu::noinline]] void refuse_footprints(std::string_view what, const Result& result, const Input& input) {
  if (overlap(footprint_of(result), footprint_of(input)))
    throw std::invalid_argument("swiglu: " + std::string(what) + " overlap");
}
/// Throws std::invalid_argument if a result shares memory with an input that is read after it is written.
template <class Result, class Input>
[[gnu::always_inline]] inline void refuse_overlap(std::string_view what, const Result& result, const Input& input) {
  // Most matrices are far apart, which is soon seen: small layers have no time to look closer.
  const auto begin = [](const auto& m) { return reinterpret_cast<std::uintptr_t>(m.data()); };
  const auto end = [&](const auto& m) { return begin(m) + m.rows() * m.pitch() * sizeof(*m.data()); };
  if (begin(result) < end(input) && begin(input) < end(result)) refuse_footprints(what, result, input);
}

/// Throws std::invalid_argument if the results of a backward pass share memory with each other or with what is read
/// after they are written.
template <class GradX, class Gradients, class Input, class Weights>
void refuse_overlaps(const GradX& grad_x, const Gradients& g, const Input& x, const Input& grad_out, const Weights& w) {
  refuse_overlap("backward: grad_x and x", grad_x.to(), x);
  w.each([&](const auto& p) {
    refuse_overlap("backward: grad_x and a weight", grad_x.to(), p);
    for (const auto& one : g) refuse_overlap("backward: a gradient and a weight", one.to(), p);
  });
  for (std::size_t i = 0; i < g.size(); ++i) {
    refuse_overlap("backward: a gradient and x", g[i].to(), x);
    refuse_overlap("backward: a gradient and grad_out", g[i].to(), grad_out);
    refuse_overlap("backward: a gradient and grad_x", g[i].to(), grad_x.to());
    for (std::size_t j = 0; j < i; ++j) refuse_overlap("backward: two gradients", g[i].to(), g[j].to());
  }
}

}  // namespace impl
}  // namespace SWIGLU_ABI
}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// How the weights of a layer, and their gradients, lie in memory: which of their extents is the row, and whether gate
// and up are one matrix.

#include <cstddef>
#include <type_traits>

#include <swiglu/interleaved.hpp>
#include <swiglu/tensor.hpp>

namespace swiglu {

/// A layout of weights, all row-major with any row pitch (but one of whole pairs of blocks where they are interleaved
/// by columns). Written from one of the two constants below: in_out, out_in.gate_up(), in_out.interleaved(1), ...
struct weight_layout {
  enum class axes {
    in_out,  ///< [inputs, outputs], as the mathematics has them: gate, up [hidden, intermediate], down [intermediate,
             ///< hidden]
    out_in   ///< [outputs, inputs], as torch.nn.Linear, safetensors and GGUF have gate_proj, up_proj, down_proj: gate,
             ///< up [intermediate, hidden], down [hidden, intermediate]
  };
  enum class pairing {
    none,        ///< gate and up are matrices of their own
    gate_first,  ///< one matrix: all outputs of gate, then those of up
    up_first,    ///< one matrix: all outputs of up, then those of gate
    interleaved  ///< one matrix: `block` outputs of gate, as many of up, and so on
  };
  axes order = axes::in_out;
  pairing pair = pairing::none;
  std::size_t block = 0;

  /// The same with gate and up packed in one matrix `gate_up` of 2 x intermediate outputs.
  constexpr weight_layout gate_up() const { return {order, pairing::gate_first, 0}; }
  constexpr weight_layout up_gate() const { return {order, pairing::up_first, 0}; }
  /// k outputs of gate, k of up, k of gate, ...; k divides the intermediate extent of a rank.
  constexpr weight_layout interleaved(std::size_t k) const { return {order, pairing::interleaved, k}; }

  constexpr bool is_out_in() const { return order == axes::out_in; }
  constexpr bool is_packed() const { return pair != pairing::none; }
  friend constexpr bool operator==(const weight_layout&, const weight_layout&) = default;
};

inline constexpr weight_layout in_out{};
inline constexpr weight_layout out_in{.order = weight_layout::axes::out_in};

namespace layout_detail {

constexpr std::size_t twice(std::size_t extent) { return extent == dynamic ? dynamic : 2 * extent; }

/// The extents of the matrices in memory.
template <weight_layout L, std::size_t Hidden, std::size_t Intermediate>
struct shapes {
  static_assert(L.pair != weight_layout::pairing::interleaved || Intermediate == dynamic ||
                    (L.block > 0 && Intermediate % L.block == 0),
                "swiglu: weight_layout: the block of interleaved gate and up has to divide the intermediate extent");
  static constexpr std::size_t rows = L.is_out_in() ? Intermediate : Hidden;  // of gate and up; the columns of down
  static constexpr std::size_t cols = L.is_out_in() ? Hidden : Intermediate;
  static constexpr std::size_t pair_rows = L.is_out_in() ? twice(rows) : rows;
  static constexpr std::size_t pair_cols = L.is_out_in() ? cols : twice(cols);
  /// Those of gate and up, known at run time.
  static constexpr extents<dynamic, dynamic> of_gate(std::size_t hidden, std::size_t intermediate) {
    return L.is_out_in() ? extents<dynamic, dynamic>{intermediate, hidden}
                         : extents<dynamic, dynamic>{hidden, intermediate};
  }
};

/// A tensor or view as a view.
template <class M>
[[gnu::always_inline]] constexpr auto view_of(M& m) {
  if constexpr (requires { m.view(); })
    return m.view();
  else
    return m;
}

/// Weights that say in which layout they are have to say L.
template <class W, weight_layout L>
constexpr bool may_have_layout() {
  if constexpr (requires { W::layout; })
    return W::layout == L;
  else
    return true;
}
template <class W, weight_layout L>
struct layout_of_weights {
  static_assert(may_have_layout<W, L>(),
                "swiglu: weight_layout: weights or gradients (first argument) are in another layout than the one they "
                "are taken for (second argument)");
};

/// One half of a packed matrix: the first, or (Nth = 1) the second one in memory.
template <weight_layout L, std::size_t Nth, class T, std::size_t Rows, std::size_t Cols>
[[gnu::always_inline]] constexpr auto half_of(view<T, Rows, Cols> both) {
  constexpr auto halved = [](std::size_t extent) { return extent == dynamic ? dynamic : extent / 2; };
  constexpr std::size_t half_rows = L.is_out_in() ? halved(Rows) : Rows,
                        half_cols = L.is_out_in() ? Cols : halved(Cols);
  using half = view<T, half_rows, half_cols>;
  const std::size_t rows = L.is_out_in() ? both.rows() / 2 : both.rows();
  const std::size_t cols = L.is_out_in() ? both.cols() : both.cols() / 2;
  constexpr std::size_t pair = L.pair == weight_layout::pairing::interleaved ? 2 * L.block : 2;
  const std::size_t outputs = L.is_out_in() ? both.rows() : both.cols();
  if (outputs % pair != 0)
    throw shape_error("gate_up: outputs, whole pairs of blocks", round_up(outputs, pair), outputs);
  if constexpr (L.pair != weight_layout::pairing::interleaved) {
    if constexpr (L.is_out_in())
      return half(both.row_block(Nth * rows, rows));
    else
      return half(both.column_block(Nth * cols, cols));
  } else {
    const extents<dynamic, dynamic> shape{rows, cols};
    const bool no_memory = rows == 0 || cols == 0 || both.data() == nullptr;
    const std::size_t offset = no_memory ? 0 : Nth * L.block * (L.is_out_in() ? both.pitch() : 1);
    if constexpr (L.is_out_in() && L.block == 1)  // every other row
      return half(both.data() + offset, shape, 2 * both.pitch());
    else
      return interleaved_view < T, half_rows, half_cols,
             L.is_out_in() ? along::rows : along::columns > (both.data() + offset, shape, both.pitch(), L.block);
  }
}

}  // namespace layout_detail

/// The matrix gate of weights in layout L, as it lies in memory: a view or, of interleaved weights, an
/// interleaved_view; [hidden, intermediate], or [intermediate, hidden] with out_in. It borrows the memory of `w`.
/// Throws shape_error where packed memory is no whole pairs of blocks.
template <weight_layout L, class W>
[[gnu::always_inline]] constexpr auto gate_of(W& w) {
  (void)sizeof(layout_detail::layout_of_weights<std::remove_const_t<W>, L>);
  if constexpr (L.is_packed())
    return layout_detail::half_of < L,
           L.pair == weight_layout::pairing::up_first ? 1 : 0 > (layout_detail::view_of(w.gate_up));
  else
    return layout_detail::view_of(w.gate);
}
/// The matrix up, alike.
template <weight_layout L, class W>
[[gnu::always_inline]] constexpr auto up_of(W& w) {
  (void)sizeof(layout_detail::layout_of_weights<std::remove_const_t<W>, L>);
  if constexpr (L.is_packed())
    return layout_detail::half_of < L,
           L.pair == weight_layout::pairing::up_first ? 0 : 1 > (layout_detail::view_of(w.gate_up));
  else
    return layout_detail::view_of(w.up);
}
/// The matrix down: [intermediate, hidden], or [hidden, intermediate] with out_in.
template <weight_layout L, class W>
[[gnu::always_inline]] constexpr auto down_of(W& w) {
  (void)sizeof(layout_detail::layout_of_weights<std::remove_const_t<W>, L>);
  return layout_detail::view_of(w.down);
}

}  // namespace swiglu

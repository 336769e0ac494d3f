// SPDX-License-Identifier: MIT
#pragma once

// What a layer keeps between forward and backward (saved, one per layer and micro-batch) and what it needs only while
// it runs (workspace, one serves every layer of a rank in turn), for each schedule.

#include <algorithm>
#include <cstddef>
#include <utility>

#include <swiglu/expr/scratch.hpp>
#include <swiglu/gemm/blocking.hpp>
#include <swiglu/mlp/params.hpp>
#include <swiglu/mlp/schedule.hpp>
#include <swiglu/panels.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// A row-major matrix of at most `capacity` rows whose number of rows may change without allocating. Its views have the
/// extents Rows and Cols where those are static.
template <real T, std::size_t Rows = dynamic, std::size_t Cols = dynamic>
class row_major {
  using matrix_extents = extents<dynamic, dynamic>;

 public:
  row_major() = default;
  row_major(std::size_t capacity, std::size_t cols, storage memory = storage::owned)
      : memory_(memory == storage::none ? 0 : checked_product(capacity, cols)),
        capacity_(capacity),
        rows_(capacity),
        cols_(cols) {}
  row_major(row_major&& other) noexcept { *this = std::move(other); }
  row_major& operator=(row_major&& other) noexcept {
    memory_ = std::move(other.memory_);
    capacity_ = std::exchange(other.capacity_, 0);
    rows_ = std::exchange(other.rows_, 0);
    cols_ = std::exchange(other.cols_, 0);
    return *this;
  }
  std::size_t capacity() const { return capacity_; }
  std::size_t rows() const { return rows_; }
  void set_rows(std::size_t rows) {
    if (rows > capacity_) throw shape_error("rows above the capacity", capacity_, rows);
    rows_ = rows;
  }
  swiglu::view<T, Rows, Cols> view() { return as<swiglu::view<T, Rows, Cols>>(rows_, cols_); }
  swiglu::view<const T, Rows, Cols> view() const { return as<swiglu::view<const T, Rows, Cols>>(rows_, cols_); }
  /// The same memory as [cols, rows]: room for the transpose.
  swiglu::view<T, Cols, Rows> transposed_view() { return as<swiglu::view<T, Cols, Rows>>(cols_, rows_); }
  std::size_t bytes() const { return memory_.size() * sizeof(T); }

 private:
  template <class View>
  View as(std::size_t rows, std::size_t cols) const {
    if constexpr (Rows != dynamic && Cols != dynamic)
      return View(memory_.data());
    else
      return View(memory_.data(), matrix_extents{rows, cols});
  }
  buffer<T> memory_;
  std::size_t capacity_ = 0, rows_ = 0, cols_ = 0;
};

/// saved of the fused schedules: h1 and h3 paired in panels, h in panels if it is kept.
template <real T, bool SaveH>
struct fused_saved {
  paired_panels<T> h1_h3;
  panels<T> h;

  fused_saved(std::size_t tokens, std::size_t intermediate, storage memory = storage::owned)
      : h1_h3(tokens, intermediate, memory), h(SaveH ? tokens : 0, intermediate, memory) {}
  void set_tokens(std::size_t tokens) {
    h1_h3.set_rows(tokens);
    if (SaveH) h.set_rows(tokens);
  }
  std::size_t tokens() const { return h1_h3.rows(); }
  std::size_t capacity() const { return h1_h3.capacity(); }
  std::size_t bytes() const { return h1_h3.bytes() + h.bytes(); }
  auto h1() { return h1_h3.first(); }
  auto h3() { return h1_h3.second(); }
  auto h1() const { return h1_h3.first(); }
  auto h3() const { return h1_h3.second(); }
};

/// workspace of the fused schedules: grad_out in panels, g_h1 and g_h3 paired, h unless it is saved.
template <real T, bool SaveH>
struct fused_workspace {
  panels<T> grad_out, h;
  paired_panels<T> g_h1_g_h3;

  fused_workspace(std::size_t tokens, std::size_t hidden, std::size_t intermediate, storage memory = storage::owned)
      : grad_out(tokens, hidden, memory),
        h(SaveH ? 0 : tokens, intermediate, memory),
        g_h1_g_h3(tokens, intermediate, memory) {}
  void set_tokens(std::size_t tokens) {
    grad_out.set_rows(tokens);
    if (!SaveH) h.set_rows(tokens);
    g_h1_g_h3.set_rows(tokens);
  }
  std::size_t capacity() const { return g_h1_g_h3.capacity(); }
  std::size_t bytes() const { return grad_out.bytes() + h.bytes() + g_h1_g_h3.bytes(); }
  auto g_h1() { return g_h1_g_h3.first(); }
  auto g_h3() { return g_h1_g_h3.second(); }
};

/// Where h is: kept, or in the workspace.
template <real T, bool SaveH>
panel_view<T, strip_columns<T>> h_panels(fused_saved<T, SaveH>& s, fused_workspace<T, SaveH>& ws) {
  return SaveH ? s.h.view() : ws.h.view();
}
template <real T, bool SaveH>
panel_view<const T, strip_columns<T>> h_panels(const fused_saved<T, SaveH>& s, const fused_workspace<T, SaveH>& ws) {
  return SaveH ? s.h.view() : ws.h.view();
}

/// Whether a layer of static shape is small: the operands of each of its contractions fit into half of L2. Small layers
/// keep their activations row-major, in static shapes, from which expr/direct.hpp makes kernels without packing or
/// blocking.
template <real T>
constexpr bool is_small(std::size_t tokens, std::size_t hidden, std::size_t intermediate) {
  if (tokens == dynamic || tokens == 0) return false;
  // Each contraction reads at most two pairs of these; the most per matrix, padding included.
  const auto padded = [](std::size_t n) { return round_up(n, pack<T>::size); };
  const std::size_t t = padded(tokens), h = padded(hidden), i = padded(intermediate);
  return 2 * std::max({t * h + h * i, t * i + h * i, t * h + t * i}) * sizeof(T) <= default_caches.l2 / 2;
}

/// saved of the fused schedules of a small layer: what the epilogue of backward multiplies by, so that the exponential,
/// which is not small beside the products here, is computed once; and h, which costs no more than to compute it again.
/// Rows, Cols: tokens and the intermediate extent.
template <real T, std::size_t Rows, std::size_t Cols>
struct small_saved {
  row_major<T, Rows, Cols> silu, slope, h;  // silu(h1), h3 silu'(h1), h

  small_saved(std::size_t tokens, std::size_t intermediate, storage memory = storage::owned)
      : silu(tokens, intermediate, memory), slope(tokens, intermediate, memory), h(tokens, intermediate, memory) {}
  void set_tokens(std::size_t tokens) {
    for (auto* m : {&silu, &slope, &h}) m->set_rows(tokens);
  }
  std::size_t tokens() const { return h.rows(); }
  std::size_t capacity() const { return h.capacity(); }
  std::size_t bytes() const { return 3 * h.bytes(); }
};

/// workspace of the fused schedules of a small layer. grad_out is copied, like that of every layer, because grad_x may
/// be its memory.
template <real T, std::size_t Rows, std::size_t Hidden, std::size_t Cols>
struct small_workspace {
  row_major<T, Rows, Hidden> grad_out;
  row_major<T, Rows, Cols> g_h1, g_h3;

  small_workspace(std::size_t tokens, std::size_t hidden, std::size_t intermediate, storage memory = storage::owned)
      : grad_out(tokens, hidden, memory), g_h1(tokens, intermediate, memory), g_h3(tokens, intermediate, memory) {}
  void set_tokens(std::size_t tokens) {
    grad_out.set_rows(tokens);
    for (auto* m : {&g_h1, &g_h3}) m->set_rows(tokens);
  }
  std::size_t capacity() const { return g_h1.capacity(); }
  std::size_t bytes() const { return grad_out.bytes() + 2 * g_h1.bytes(); }
};

/// saved of schedule::xla: what the program keeps alive, [tokens, intermediate] row-major.
template <real T, std::size_t Rows = dynamic, std::size_t Cols = dynamic>
struct per_operation_saved {
  row_major<T, Rows, Cols> h1, h3, sigmoid, h;

  per_operation_saved(std::size_t tokens, std::size_t intermediate, storage memory = storage::owned)
      : h1(tokens, intermediate, memory),
        h3(tokens, intermediate, memory),
        sigmoid(tokens, intermediate, memory),
        h(tokens, intermediate, memory) {}
  void set_tokens(std::size_t tokens) {
    for (auto* m : {&h1, &h3, &sigmoid, &h}) m->set_rows(tokens);
  }
  std::size_t tokens() const { return h.rows(); }
  std::size_t capacity() const { return h.capacity(); }
  std::size_t bytes() const { return h1.bytes() + h3.bytes() + sigmoid.bytes() + h.bytes(); }
};

/// workspace of schedule::xla: every value of the backward pass, and the transposes that it materialises.
template <real T, std::size_t Rows = dynamic, std::size_t Hidden = dynamic, std::size_t Cols = dynamic>
struct per_operation_workspace {
  row_major<T, Rows, Cols> g_h, g_h1, g_h3, g_h1_transposed, g_h3_transposed;  // [tokens, intermediate]
  row_major<T, Rows, Hidden> grad_out_transposed, g_x_h1, g_x_h3;              // [tokens, hidden]

  per_operation_workspace(std::size_t tokens, std::size_t hidden, std::size_t intermediate,
                          storage memory = storage::owned)
      : g_h(tokens, intermediate, memory),
        g_h1(tokens, intermediate, memory),
        g_h3(tokens, intermediate, memory),
        g_h1_transposed(tokens, intermediate, memory),
        g_h3_transposed(tokens, intermediate, memory),
        grad_out_transposed(tokens, hidden, memory),
        g_x_h1(tokens, hidden, memory),
        g_x_h3(tokens, hidden, memory) {}
  void set_tokens(std::size_t tokens) {
    for (auto* m : {&g_h, &g_h1, &g_h3, &g_h1_transposed, &g_h3_transposed}) m->set_rows(tokens);
    for (auto* m : {&grad_out_transposed, &g_x_h1, &g_x_h3}) m->set_rows(tokens);
  }
  std::size_t capacity() const { return g_h.capacity(); }
  std::size_t bytes() const { return 5 * g_h.bytes() + 3 * g_x_h1.bytes(); }
};

}  // namespace SWIGLU_ABI
}  // namespace swiglu

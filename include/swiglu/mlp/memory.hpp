// SPDX-License-Identifier: MIT
#pragma once

// What a layer keeps between forward and backward (saved, one per layer and micro-batch) and what it needs only while
// it runs (workspace, one serves every layer of a rank in turn), for each schedule.

#include <cstddef>

#include <swiglu/expr/scratch.hpp>
#include <swiglu/mlp/params.hpp>
#include <swiglu/mlp/schedule.hpp>
#include <swiglu/panels.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// A row-major matrix of at most `capacity` rows whose number of rows may change without allocating.
template <real T>
class row_major {
 public:
  row_major() = default;
  row_major(std::size_t capacity, std::size_t cols, storage memory = storage::owned)
      : memory_(memory == storage::none ? 0 : capacity * cols), capacity_(capacity), rows_(capacity), cols_(cols) {}
  void set_rows(std::size_t rows) {
    if (rows > capacity_) throw shape_error("rows above the capacity", capacity_, rows);
    rows_ = rows;
  }
  swiglu::view<T, dynamic, dynamic> view() { return {memory_.data(), extents<dynamic, dynamic>{rows_, cols_}}; }
  swiglu::view<const T, dynamic, dynamic> view() const {
    return {memory_.data(), extents<dynamic, dynamic>{rows_, cols_}};
  }
  /// The same memory as [cols, rows]: room for the transpose.
  swiglu::view<T, dynamic, dynamic> transposed_view() {
    return {memory_.data(), extents<dynamic, dynamic>{cols_, rows_}};
  }
  std::size_t bytes() const { return memory_.size() * sizeof(T); }

 private:
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

/// saved of schedule::xla: what the program keeps alive, [tokens, intermediate] row-major.
template <real T>
struct per_operation_saved {
  row_major<T> h1, h3, sigmoid, h;

  per_operation_saved(std::size_t tokens, std::size_t intermediate, storage memory = storage::owned)
      : h1(tokens, intermediate, memory),
        h3(tokens, intermediate, memory),
        sigmoid(tokens, intermediate, memory),
        h(tokens, intermediate, memory),
        capacity_(tokens),
        tokens_(tokens) {}
  void set_tokens(std::size_t tokens) {
    for (row_major<T>* m : {&h1, &h3, &sigmoid, &h}) m->set_rows(tokens);
    tokens_ = tokens;
  }
  std::size_t tokens() const { return tokens_; }
  std::size_t capacity() const { return capacity_; }
  std::size_t bytes() const { return h1.bytes() + h3.bytes() + sigmoid.bytes() + h.bytes(); }

 private:
  std::size_t capacity_, tokens_;
};

/// workspace of schedule::xla: every value of the backward pass, and the transposes that it materialises.
template <real T>
struct per_operation_workspace {
  row_major<T> g_h, g_h1, g_h3, g_h1_transposed, g_h3_transposed;  // [tokens, intermediate]
  row_major<T> grad_out_transposed, g_x_h1, g_x_h3;                // [tokens, hidden]

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
    for (row_major<T>* m :
         {&g_h, &g_h1, &g_h3, &g_h1_transposed, &g_h3_transposed, &grad_out_transposed, &g_x_h1, &g_x_h3})
      m->set_rows(tokens);
  }
  std::size_t bytes() const { return 5 * g_h.bytes() + 3 * g_x_h1.bytes(); }
};

}  // namespace SWIGLU_ABI
}  // namespace swiglu

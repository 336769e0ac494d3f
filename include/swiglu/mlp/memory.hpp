// SPDX-License-Identifier: MIT
#pragma once

// What a layer keeps between forward and backward (saved, one per layer and micro-batch) and what it needs only while
// it runs (workspace, one serves every layer of a rank in turn), for each schedule.

#include <cstddef>
#include <type_traits>
#include <utility>

#include <swiglu/expr/scratch.hpp>
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

/// Two row-major matrices of the same shape: paired_panels without panels.
template <real T, std::size_t Rows = dynamic, std::size_t Cols = dynamic>
class row_major_pair {
 public:
  row_major_pair() = default;
  row_major_pair(std::size_t capacity, std::size_t cols, storage memory = storage::owned)
      : first_(capacity, cols, memory), second_(capacity, cols, memory) {}
  void set_rows(std::size_t rows) { first_.set_rows(rows), second_.set_rows(rows); }
  std::size_t capacity() const { return first_.capacity(); }
  std::size_t bytes() const { return first_.bytes() + second_.bytes(); }
  auto first() { return first_.view(); }
  auto first() const { return first_.view(); }
  auto second() { return second_.view(); }
  auto second() const { return second_.view(); }
  auto first_transposed() { return first_.transposed_view(); }
  auto second_transposed() { return second_.transposed_view(); }

 private:
  row_major<T, Rows, Cols> first_, second_;
};

namespace impl {
template <schedule S, real T, std::size_t Rows, std::size_t Cols>
using activation_memory = std::conditional_t<S.in_panels(), panels<T>, row_major<T, Rows, Cols>>;
template <schedule S, real T, std::size_t Rows, std::size_t Cols>
using activation_pair_memory = std::conditional_t<S.in_panels(), paired_panels<T>, row_major_pair<T, Rows, Cols>>;

/// Matrices that a schedule has no use for have a capacity of 0.
template <class... Matrix>
void set_rows_of_used(std::size_t rows, Matrix&... matrix) {
  ((matrix.capacity() == 0 ? void() : matrix.set_rows(rows)), ...);
}
}  // namespace impl

/// The intermediate values [tokens, intermediate] of a schedule: those that it keeps between the passes, or (not
/// `Kept`) those that it computes again. Rows, Cols: tokens and the intermediate extent where the layout has them.
template <real T, schedule S, bool Kept, std::size_t Rows = dynamic, std::size_t Cols = dynamic>
class layer_values {
  using matrix = impl::activation_memory<S, T, Rows, Cols>;
  using pair = impl::activation_pair_memory<S, T, Rows, Cols>;

 public:
  static constexpr bool has_h1_h3 = S.keeps_h1_h3() == Kept, has_h = S.keeps_h() == Kept;
  static constexpr bool has_sigmoid = S.stores_sigmoid() && S.keeps_sigmoid() == Kept;
  static constexpr bool has_complement = has_sigmoid && S.cut != schedule::kernels::unfused;

  layer_values(std::size_t tokens, std::size_t intermediate, storage memory = storage::owned)
      : capacity_(tokens),
        tokens_(tokens),
        h1_h3_(has_h1_h3 ? tokens : 0, intermediate, memory),
        sigmoids_(has_complement ? tokens : 0, intermediate, memory),
        sigmoid_(has_sigmoid && !has_complement ? tokens : 0, intermediate, memory),
        h_(has_h ? tokens : 0, intermediate, memory) {}
  void set_tokens(std::size_t tokens) {
    impl::set_rows_of_used(tokens, h1_h3_, sigmoids_, sigmoid_, h_);
    tokens_ = tokens;
  }
  std::size_t tokens() const { return tokens_; }
  std::size_t capacity() const { return capacity_; }
  std::size_t bytes() const { return h1_h3_.bytes() + sigmoids_.bytes() + sigmoid_.bytes() + h_.bytes(); }

  auto h1() { return h1_h3_.first(); }
  auto h1() const { return h1_h3_.first(); }
  auto h3() { return h1_h3_.second(); }
  auto h3() const { return h1_h3_.second(); }
  auto sigmoid() { return sigmoid_of(*this); }
  auto sigmoid() const { return sigmoid_of(*this); }
  auto complement() { return sigmoids_.second(); }
  auto complement() const { return sigmoids_.second(); }
  auto h() { return h_.view(); }
  auto h() const { return h_.view(); }

 private:
  template <class Self>
  static auto sigmoid_of(Self& self) {
    if constexpr (has_complement)
      return self.sigmoids_.first();
    else
      return self.sigmoid_.view();
  }
  std::size_t capacity_, tokens_;
  pair h1_h3_, sigmoids_;
  matrix sigmoid_, h_;
};

/// The scratch memory of a schedule.
template <real T, schedule S, std::size_t Rows = dynamic, std::size_t Hidden = dynamic, std::size_t Cols = dynamic>
class layer_workspace {
  static constexpr bool packed = S.in_panels(), two_branches = S.grad_x != schedule::branches::one_contraction;

 public:
  layer_values<T, S, false, Rows, Cols> values;

  layer_workspace(std::size_t tokens, std::size_t hidden, std::size_t intermediate, storage memory = storage::owned)
      : values(tokens, intermediate, memory),
        grad_out_(packed ? tokens : 0, hidden, memory),
        g_h_(S.cut == schedule::kernels::fused ? 0 : tokens, intermediate, memory),
        g_h1_g_h3_(tokens, intermediate, memory),
        grad_out_transposed_(packed ? 0 : tokens, hidden, memory),
        transposed_(packed ? 0 : tokens, intermediate, memory),
        branches_(two_branches ? tokens : 0, hidden, memory) {}
  void set_tokens(std::size_t tokens) {
    values.set_tokens(tokens);
    impl::set_rows_of_used(tokens, grad_out_, g_h_, g_h1_g_h3_, grad_out_transposed_, transposed_, branches_);
  }
  std::size_t capacity() const { return values.capacity(); }
  std::size_t bytes() const {
    return values.bytes() + grad_out_.bytes() + g_h_.bytes() + g_h1_g_h3_.bytes() + grad_out_transposed_.bytes() +
           transposed_.bytes() + branches_.bytes();
  }

  /// grad_out copied into panels, which every product reads; grad_x may be the memory of the caller's.
  auto grad_out() { return grad_out_.view(); }
  auto g_h() { return g_h_.view(); }
  auto g_h1() { return g_h1_g_h3_.first(); }
  auto g_h3() { return g_h1_g_h3_.second(); }
  /// The transposes that schedule::transposition::materialised writes.
  auto grad_out_transposed() { return grad_out_transposed_.transposed_view(); }
  auto g_h1_transposed() { return transposed_.first_transposed(); }
  auto g_h3_transposed() { return transposed_.second_transposed(); }
  /// The two branches of grad_x, [tokens, hidden], where they are products of their own.
  auto g_x_h1() { return branches_.first(); }
  auto g_x_h3() { return branches_.second(); }

 private:
  impl::activation_memory<S, T, Rows, Hidden> grad_out_;
  impl::activation_memory<S, T, Rows, Cols> g_h_;
  impl::activation_pair_memory<S, T, Rows, Cols> g_h1_g_h3_;
  row_major<T, Rows, Hidden> grad_out_transposed_;
  row_major_pair<T, Rows, Cols> transposed_;
  row_major_pair<T, Rows, Hidden> branches_;
};

/// The intermediate values, wherever the schedule has them.
template <class Saved, class Workspace>
struct hidden_values {
  Saved& saved;
  Workspace& scratch;

  auto h1() const {
    return from<Saved::has_h1_h3>([](auto& v) { return v.h1(); });
  }
  auto h3() const {
    return from<Saved::has_h1_h3>([](auto& v) { return v.h3(); });
  }
  auto sigmoid() const {
    return from<Saved::has_sigmoid>([](auto& v) { return v.sigmoid(); });
  }
  auto complement() const {
    return from<Saved::has_complement>([](auto& v) { return v.complement(); });
  }
  auto h() const {
    return from<Saved::has_h>([](auto& v) { return v.h(); });
  }

 private:
  template <bool Kept, class F>
  auto from(F f) const {
    if constexpr (Kept)
      return f(saved);
    else
      return f(scratch.values);
  }
};
template <class Saved, class Workspace>
hidden_values(Saved&, Workspace&) -> hidden_values<Saved, Workspace>;

}  // namespace SWIGLU_ABI
}  // namespace swiglu

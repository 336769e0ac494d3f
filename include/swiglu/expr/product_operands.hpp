// SPDX-License-Identifier: MIT
#pragma once

// From the products of a kernel's text to the run-time contraction that the engine computes.

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include <swiglu/exec/executor.hpp>
#include <swiglu/expr/plan.hpp>
#include <swiglu/gemm/pack.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {
namespace impl {

/// The operands of a kernel's products, row-major left operands copied into panels.
template <class Plan, real T, class... Assigned>
class product_operands {
 public:
  static constexpr std::size_t terms = []<class... P>(const std::tuple<P...>*) {
    return (P::type::terms + ... + 0);
  }(static_cast<const typename Plan::product_list*>(nullptr));

  product_operands(const Assigned&... assigned) {
    [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
      (each_product<Plan::products_before(Nth)>(assigned.from, [&]<std::size_t P>(const auto& e) { add<P>(e); }), ...);
    }
    (std::index_sequence_for<Assigned...>{});
    const auto& to = std::get<0>(std::tie(assigned...)).to;
    shape_.rows = to.rows(), shape_.cols = to.cols();
  }

  /// Elements of memory for the left operands copied.
  std::size_t copied() const { return copied_; }
  const contraction<T>& shape() const { return shape_; }

  template <executor X>
  void copy_left(T* memory, X& threads) {
    for (std::size_t i = 0; i < copies_; ++i) {
      const copy& c = copy_[i];
      const std::size_t rows = c.from.rows();
      const panel_view<T, strip_columns<T>> to(memory + c.offset, rows, c.from.cols(),
                                               strip_rows<T>(rows) * strip_columns<T>);
      in_parts(threads, rows, 16,
               [&](std::size_t, std::size_t first, std::size_t last) { copy_to_panels(c.from, to, first, last); });
      for (std::size_t t = 0; t < used_; ++t)
        if (copy_of_[t] == i) term_[t].left.data = to.data(), term_[t].left.strip_stride = to.strip_stride();
    }
  }

 private:
  using matrix = view<const T, dynamic, dynamic>;
  struct copy {
    matrix from;
    std::size_t offset = 0;
  };
  static constexpr std::size_t no_copy = dynamic;

  template <std::size_t P, class E>
  void add(const E& e) {
    if constexpr (Plan::first_product[P] == P) {
      const std::size_t first = used_;
      std::apply([&](const auto&... pair) { (add_term(pair.left, pair.right), ...); }, e.pairs);
      shape_.terms[Plan::group[P]] = {term_.data() + first, used_ - first};
      shape_.groups = std::max(shape_.groups, Plan::group[P] + 1);
      original_[Plan::group[P]] = &e;
    } else {
      check_same_product(*static_cast<const E*>(original_[Plan::group[P]]), e);
    }
  }
  template <class L, class R>
  void add_term(const L& left, const R& right) {
    term_[used_] = {as_left(left), as_right(right), left.cols()};
    ++used_;
  }

  template <class V>
  left_operand<T> as_left(const panel_leaf<V>& e) {
    copy_of_[used_] = no_copy;
    return {e.source.data(), e.source.strip_stride(), V::run, false};
  }
  template <class V>
  left_operand<T> as_left(const interleaved_leaf<V>&) {
    static_assert(sizeof(V) == 0, "swiglu: product(a, b): an interleaved matrix can only be the right operand, b");
    return {};
  }
  template <class V>
  left_operand<T> as_left(const view_leaf<V>& e) {
    copy_of_[used_] = find_copy(
        matrix(e.source.data(), extents<dynamic, dynamic>{e.source.rows(), e.source.cols()}, e.source.pitch()));
    // Until the copy exists its number stands for it, so that equal operands compare equal.
    return {nullptr, copy_of_[used_], strip_columns<T>, false};
  }
  template <class Leaf>
  left_operand<T> as_left(const transposed_leaf<Leaf>& e) {
    left_operand<T> left = as_left(e.leaf);
    left.transposed = true;
    return left;
  }
  std::size_t find_copy(const matrix& m) {
    for (std::size_t i = 0; i < copies_; ++i) {
      const matrix& c = copy_[i].from;
      if (c.data() == m.data() && c.pitch() == m.pitch() && c.rows() == m.rows() && c.cols() == m.cols()) return i;
    }
    copy_[copies_] = {m, copied_};
    copied_ += round_up(m.cols(), strip_columns<T>) * strip_rows<T>(m.rows());
    return copies_++;
  }

  template <class V>
  static right_operand<T> as_right(const panel_leaf<V>& e) {
    return {e.source.data(), e.source.strip_stride(), V::run, false};
  }
  template <class V>
  static right_operand<T> as_right(const view_leaf<V>& e) {
    return {e.source.data(), e.source.pitch(), 0, false};
  }
  template <class V>
  static right_operand<T> as_right(const interleaved_leaf<V>& e) {
    right_operand<T> right{e.source.data(), e.source.pitch(), 0, false};
    (V::axis == along::rows ? right.row_block : right.column_block) = e.source.block();
    return right;
  }
  template <class Leaf>
  static right_operand<T> as_right(const transposed_leaf<Leaf>& e) {
    right_operand<T> right = as_right(e.leaf);
    right.transposed = true;
    return right;
  }

  contraction<T> shape_;
  std::array<product_term<T>, terms> term_{};
  std::array<std::size_t, terms> copy_of_{};
  std::array<copy, terms> copy_{};
  std::array<const void*, most_groups> original_{};
  std::size_t used_ = 0, copies_ = 0, copied_ = 0;
};

}  // namespace impl
}  // namespace SWIGLU_ABI
}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// Which bytes a matrix occupies, and whether a destination may overwrite what an expression has yet to read.

#include <cstddef>
#include <cstdint>
#include <tuple>

#include <swiglu/expr/product.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {
namespace impl {

/// `count` stretches of `width` bytes, `period` bytes apart.
struct footprint {
  std::uintptr_t begin = 0;
  std::size_t period = 0, width = 0, count = 0;

  friend bool operator==(const footprint&, const footprint&) = default;
};

template <class T, std::size_t... E>
footprint footprint_of(const view<T, E...>& v) {
  return {reinterpret_cast<std::uintptr_t>(v.data()), v.pitch() * sizeof(T), v.cols() * sizeof(T), v.rows()};
}
/// Blocks at equal distances, since a row of the memory is whole pairs of blocks. What lies between two rows, or behind
/// the last row of a block, is taken for part of the matrix: it errs on the side of yes.
template <class T, std::size_t Rows, std::size_t Cols, along Axis>
footprint footprint_of(const interleaved_view<T, Rows, Cols, Axis>& v) {
  const auto begin = reinterpret_cast<std::uintptr_t>(v.data());
  const std::size_t block = v.block(), pitch = v.pitch();
  if (v.rows() == 0 || v.cols() == 0) return {begin, 1, 0, 0};
  if constexpr (Axis == along::rows)
    return {begin, 2 * block * pitch * sizeof(T), ((block - 1) * pitch + v.cols()) * sizeof(T),
            ceil_div(v.rows(), block)};
  else
    return {begin, 2 * block * sizeof(T), block * sizeof(T),
            (v.rows() - 1) * (pitch / (2 * block)) + ceil_div(v.cols(), block)};
}
/// The strips of panels follow one another, so that all their rows have one period.
template <class T, std::size_t Run>
footprint footprint_of(const panel_view<T, Run>& v) {
  const std::size_t strip = strip_columns<std::remove_const_t<T>>, strips = ceil_div(v.cols(), Run);
  const std::size_t count = strips == 0 || v.rows() == 0 ? 0 : (strips - 1) * (v.strip_stride() / strip) + v.rows();
  return {reinterpret_cast<std::uintptr_t>(v.data()), strip * sizeof(T), Run * sizeof(T), count};
}

/// Whether two matrices share a byte; may err on the side of yes if their periods differ.
inline bool overlap(const footprint& a, const footprint& b) {
  if (a.count == 0 || b.count == 0 || a.width == 0 || b.width == 0) return false;
  const auto end = [](const footprint& f) { return f.begin + (f.count - 1) * f.period + f.width; };
  if (end(a) <= b.begin || end(b) <= a.begin) return false;
  if (a.period != b.period || a.count == 1 || b.count == 1) return true;
  // Columns of one matrix: b starts `offset` bytes into a row of a.
  const std::size_t offset =
      b.begin >= a.begin ? (b.begin - a.begin) % a.period : (a.period - (a.begin - b.begin) % a.period) % a.period;
  return offset < a.width || offset + b.width > a.period;
}

/// Whether writing `to` may change what the expression reads later. Reading the element that is being written is safe.
template <class Leaf>
bool disturbs_elsewhere(const footprint& to, const Leaf& e) {
  const footprint from = footprint_of(e.source);
  return from != to && overlap(to, from);
}
template <class View>
bool disturbs(const footprint& to, const view_leaf<View>& e) {
  return disturbs_elsewhere(to, e);
}
template <class View>
bool disturbs(const footprint& to, const interleaved_leaf<View>& e) {
  return disturbs_elsewhere(to, e);
}
template <class View>
bool disturbs(const footprint& to, const panel_leaf<View>& e) {
  return disturbs_elsewhere(to, e);
}
template <class Leaf>
bool disturbs(const footprint& to, const transposed_leaf<Leaf>& e) {
  return overlap(to, footprint_of(e.leaf.source));
}
template <real T>
bool disturbs(const footprint&, const scalar_leaf<T>&) {
  return false;
}
template <class View, bool Down>
bool disturbs(const footprint& to, const broadcast_leaf<View, Down>& e) {
  return overlap(to, footprint_of(e.source));
}
template <class F, class... Args>
bool disturbs(const footprint& to, const map_node<F, Args...>& e);
template <name Name, class... Pairs>
bool disturbs(const footprint& to, const product_node<Name, Pairs...>& e) {
  const auto reads = [&](const auto& leaf) {
    if constexpr (requires { leaf.source; })
      return overlap(to, footprint_of(leaf.source));  // a product reads other elements than the one it writes
    else
      return disturbs(to, leaf);
  };
  return std::apply([&](const auto&... p) { return ((reads(p.left) || reads(p.right)) || ...); }, e.pairs);
}
template <gate_kind Kind, class Arg>
bool disturbs(const footprint& to, const gate_node<Kind, Arg>& e) {
  return disturbs(to, e.arg);
}
template <class F, class... Args>
bool disturbs(const footprint& to, const map_node<F, Args...>& e) {
  return std::apply([&](const auto&... a) { return (disturbs(to, a) || ...); }, e.args);
}

}  // namespace impl
}  // namespace SWIGLU_ABI
}  // namespace swiglu

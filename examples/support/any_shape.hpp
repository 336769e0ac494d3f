// SPDX-License-Identifier: MIT
#pragma once

// The layer for callers whose extents are all known only at run time and who keep its saved activations in memory of
// their own, as Python frameworks do. swiglu::mlp has its extents compiled in and owns what it saves; this is the same
// mathematics, written in the library's language of kernels once more:
//
//     h1 = x gate    h3 = x up    h = silu(h1) h3    out = h down
//
// No checks: the callers have shapes of their own to check and their own words for it.

#include <algorithm>
#include <cstddef>

#include <swiglu/expr/evaluate.hpp>

namespace any_shape {

template <class T>
using matrix = swiglu::view<T, swiglu::dynamic, swiglu::dynamic>;

template <class T>
matrix<T> make_matrix(T* data, std::size_t rows, std::size_t cols, std::size_t pitch) {
  return {data, swiglu::extents<swiglu::dynamic, swiglu::dynamic>{rows, cols}, pitch};
}
template <class T>
matrix<T> make_matrix(T* data, std::size_t rows, std::size_t cols) {
  return make_matrix(data, rows, cols, cols);
}

/// How weights, and their gradients, lie in memory.
enum class layout {
  in_out,  ///< [inputs, outputs], as the mathematics has them: gate, up [hidden, intermediate], down the other way
           ///< round
  out_in   ///< [outputs, inputs], as torch.nn.Linear and most checkpoints have them
};

/// Three matrices: weights, or their gradients.
template <class T>
struct three {
  matrix<T> gate, up, down;
};

/// Elements that `saved` takes for each token: enough for every instruction set, and simple enough to be written in
/// Python, where shapes have to be known before anything runs. h1 and h3 take two columns for one, h takes one.
constexpr std::size_t saved_columns(std::size_t intermediate) { return 3 * swiglu::round_up(intermediate, 64); }

/// h1 and h3 paired in panels, then h in panels, in memory of the caller.
template <class T>
class saved {
  using value = std::remove_const_t<T>;
  static constexpr std::size_t strip = swiglu::strip_columns<value>, half = strip / 2;
  static_assert(64 % strip == 0, "saved_columns counts on that");

 public:
  /// `memory`: tokens * saved_columns(intermediate) elements.
  saved(T* memory, std::size_t tokens, std::size_t intermediate)
      : memory_(memory), tokens_(tokens), intermediate_(intermediate) {}

  swiglu::panel_view<T, half> h1() const { return {memory_, tokens_, intermediate_, tokens_ * strip}; }
  swiglu::panel_view<T, half> h3() const { return {at(half), tokens_, intermediate_, tokens_ * strip}; }
  swiglu::panel_view<T, strip> h() const { return {at(paired()), tokens_, intermediate_, tokens_ * strip}; }
  std::size_t used() const { return paired() + tokens_ * swiglu::round_up(intermediate_, strip); }

 private:
  T* at(std::size_t offset) const { return tokens_ == 0 ? memory_ : memory_ + offset; }
  std::size_t paired() const { return tokens_ * 2 * swiglu::round_up(intermediate_, half); }

  T* memory_;
  std::size_t tokens_, intermediate_;
};

/// Scratch memory, for one call at a time: it grows with the largest of them.
template <swiglu::real T>
class workspace {
 public:
  swiglu::scratch<T> memory;

  /// grad_out in panels, g_h1 and g_h3 paired in panels.
  struct gradients {
    swiglu::panel_view<T, swiglu::strip_columns<T>> grad_out;
    swiglu::panel_view<T, swiglu::strip_columns<T> / 2> g_h1, g_h3;
  };
  gradients make_gradients(std::size_t tokens, std::size_t hidden, std::size_t intermediate) {
    constexpr std::size_t strip = swiglu::strip_columns<T>;
    const std::size_t first = tokens * swiglu::round_up(hidden, strip), n = tokens * saved_columns(intermediate);
    if (first + n > activations_.size()) activations_ = swiglu::buffer<T>(first + n);
    const saved<T> pair(activations_.data() + (tokens == 0 ? 0 : first), tokens, intermediate);
    return {{activations_.data(), tokens, hidden, tokens * strip}, pair.h1(), pair.h3()};
  }

 private:
  swiglu::buffer<T> activations_;
};

/// A weight as [inputs, outputs], however it lies in memory.
template <layout Layout, class T>
auto as_in_out(const matrix<T>& w) {
  if constexpr (Layout == layout::in_out)
    return w;
  else
    return transpose(w);
}

/// x, out [tokens, hidden].
template <layout Layout, swiglu::real T, class Executor>
void forward(workspace<T>& ws, Executor& threads, matrix<const T> x, const three<const T>& w, saved<T> s,
             matrix<T> out) {
  const swiglu::resources on{ws.memory, threads};
  const auto gate = swiglu::product<"h1">(x, as_in_out<Layout>(w.gate));
  const auto up = swiglu::product<"h3">(x, as_in_out<Layout>(w.up));
  evaluate(on, noalias(s.h1()) <<= gate, noalias(s.h3()) <<= up, noalias(s.h()) <<= silu(gate) * up);
  evaluate(on, noalias(out) <<= swiglu::product(s.h(), as_in_out<Layout>(w.down)));
}

/// grad_out, x, grad_x [tokens, hidden]; grad_w is overwritten. `s` is what forward left. grad_x may be grad_out.
template <layout Layout, swiglu::real T, class Executor>
void backward(workspace<T>& ws, Executor& threads, matrix<const T> grad_out, matrix<const T> x, const three<const T>& w,
              saved<const T> s, matrix<T> grad_x, const three<T>& grad_w) {
  const swiglu::resources on{ws.memory, threads};
  const auto h1 = s.h1(), h3 = s.h3();
  const auto h = s.h();
  const auto [g_out, g_h1, g_h3] = ws.make_gradients(x.rows(), x.cols(), h.cols());
  evaluate(on, noalias(g_out) <<= grad_out);

  const auto g_h = swiglu::product<"g_h">(g_out, transpose(as_in_out<Layout>(w.down)));
  evaluate(on, noalias(g_h1) <<= g_h * (h3 * silu_grad(h1)), noalias(g_h3) <<= g_h * silu(h1));
  evaluate(on, noalias(grad_x) <<= swiglu::product(g_h1, transpose(as_in_out<Layout>(w.gate))) +
                                   swiglu::product(g_h3, transpose(as_in_out<Layout>(w.up))));

  if constexpr (Layout == layout::in_out) {
    evaluate(on, noalias(grad_w.gate) <<= swiglu::product<"g_gate">(transpose(x), g_h1),
             noalias(grad_w.up) <<= swiglu::product<"g_up">(transpose(x), g_h3));
    evaluate(on, noalias(grad_w.down) <<= swiglu::product(transpose(h), g_out));
  } else {
    evaluate(on, noalias(grad_w.gate) <<= swiglu::product(transpose(g_h1), x));
    evaluate(on, noalias(grad_w.up) <<= swiglu::product(transpose(g_h3), x));
    evaluate(on, noalias(grad_w.down) <<= swiglu::product(transpose(g_out), h));
  }
}

}  // namespace any_shape

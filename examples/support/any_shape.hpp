// SPDX-License-Identifier: MIT
#pragma once

// The layer for callers whose extents are all known only at run time and who keep its saved activations in memory of
// their own, as Python frameworks do. swiglu::mlp has its extents compiled in and owns what it saves; this runs the
// same kernels, those of the library where the layout of the weights does not matter:
//
//     h1 = x gate    h3 = x up    h = silu(h1) h3    out = h down
//
// No checks: the callers have shapes of their own to check and their own words for it.

#include <algorithm>
#include <cstddef>

#include <swiglu/mlp/backward.hpp>

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
    saved<T> pair;
    auto g_h1() const { return pair.h1(); }
    auto g_h3() const { return pair.h3(); }
  };
  gradients make_gradients(std::size_t tokens, std::size_t hidden, std::size_t intermediate) {
    constexpr std::size_t strip = swiglu::strip_columns<T>;
    const std::size_t first = tokens * swiglu::round_up(hidden, strip), n = tokens * saved_columns(intermediate);
    if (first + n > activations_.size()) activations_ = swiglu::buffer<T>(first + n);
    const saved<T> pair(activations_.data() + (tokens == 0 ? 0 : first), tokens, intermediate);
    return {{activations_.data(), tokens, hidden, tokens * strip}, pair};
  }

 private:
  swiglu::buffer<T> activations_;
};

/// Weights as the mathematics has them, [inputs, outputs], however they lie in memory.
template <class Weight>
struct in_out_weights {
  Weight gate, up, down;
};
template <layout Layout, class T>
auto as_in_out(const three<T>& w) {
  if constexpr (Layout == layout::in_out)
    return in_out_weights<matrix<T>>{w.gate, w.up, w.down};
  else
    return in_out_weights<decltype(transpose(w.gate))>{transpose(w.gate), transpose(w.up), transpose(w.down)};
}

/// x, out [tokens, hidden].
template <layout Layout, swiglu::real T, class Executor>
void forward(workspace<T>& ws, Executor& threads, matrix<const T> x, const three<const T>& w, saved<T> s,
             matrix<T> out) {
  const swiglu::resources on{ws.memory, threads};
  const auto weights = as_in_out<Layout>(w);
  swiglu::hidden_kernels<swiglu::schedule::fused>(on, x, weights, s);
  evaluate(on, noalias(out) <<= swiglu::product(s.h(), weights.down));
}

/// grad_out, x, grad_x [tokens, hidden]; grad_w is overwritten. `s` is what forward left. grad_x may be grad_out.
template <layout Layout, swiglu::real T, class Executor>
void backward(workspace<T>& ws, Executor& threads, matrix<const T> grad_out, matrix<const T> x, const three<const T>& w,
              saved<const T> s, matrix<T> grad_x, const three<T>& grad_w) {
  const swiglu::resources on{ws.memory, threads};
  const auto weights = as_in_out<Layout>(w);
  const auto h = s.h();
  const auto gradients = ws.make_gradients(x.rows(), x.cols(), h.cols());
  const auto g_out = gradients.grad_out;
  const auto g_h1 = gradients.g_h1(), g_h3 = gradients.g_h3();
  evaluate(on, noalias(g_out) <<= grad_out);
  swiglu::gradient_kernels_of_h<swiglu::schedule::fused>(on, g_out, weights, s, gradients);
  evaluate(on, noalias(grad_x) <<=
               swiglu::product(g_h1, transpose(weights.gate)) + swiglu::product(g_h3, transpose(weights.up)));

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

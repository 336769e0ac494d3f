// SPDX-License-Identifier: MIT
// The layer of run-time extents against the library's own, in both layouts of the weights.

#include "any_shape.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <swiglu/mlp.hpp>

namespace {

using any_shape::layout;
using any_shape::make_matrix;

constexpr std::size_t hidden = 24, intermediate = 40;
using mlp = swiglu::mlp<float, swiglu::dims{.hidden = hidden, .intermediate = intermediate}>;

void fill(std::span<float> values, unsigned seed) {
  for (float& v : values) v = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23F - 1;
}

/// A matrix of the library's weights, or its transpose.
std::vector<float> in_layout(any_shape::matrix<const float> w, layout how) {
  std::vector<float> values(w.rows() * w.cols());
  for (std::size_t r = 0; r < w.rows(); ++r)
    for (std::size_t c = 0; c < w.cols(); ++c)
      values[how == layout::in_out ? r * w.cols() + c : c * w.rows() + r] = w(r, c);
  return values;
}
template <class T>
any_shape::matrix<T> matrix_of(std::vector<std::remove_const_t<float>>& values, std::size_t in, std::size_t out,
                               layout how) {
  return how == layout::in_out ? make_matrix<T>(values.data(), in, out) : make_matrix<T>(values.data(), out, in);
}

double distance(any_shape::matrix<const float> a, any_shape::matrix<const float> b) {
  REQUIRE(a.rows() == b.rows());
  REQUIRE(a.cols() == b.cols());
  double d = 0;
  for (std::size_t r = 0; r < a.rows(); ++r)
    for (std::size_t c = 0; c < a.cols(); ++c) {
      const double difference = std::fabs(static_cast<double>(a(r, c)) - static_cast<double>(b(r, c)));
      d = difference <= d ? d : difference;  // NaN counts
    }
  return d;
}

template <layout Layout>
void compare(std::size_t tokens) {
  mlp::weights w;
  mlp::gradients g;
  swiglu::tensor<float, swiglu::dynamic, hidden> x(tokens), grad_out(tokens), out(tokens), grad_x(tokens);
  fill(w.gate.span(), 1), fill(w.up.span(), 2), fill(w.down.span(), 3), fill(x.span(), 4), fill(grad_out.span(), 5);
  mlp::saved s(tokens);
  mlp::workspace ws(tokens);
  mlp::forward(x, w, s, ws, out);
  mlp::backward(grad_out, x, w, s, ws, grad_x, g);

  std::vector<float> gate = in_layout(w.gate.view(), Layout), up = in_layout(w.up.view(), Layout),
                     down = in_layout(w.down.view(), Layout), g_gate(gate.size()), g_up(up.size()), g_down(down.size());
  const any_shape::three<const float> weights{matrix_of<const float>(gate, hidden, intermediate, Layout),
                                              matrix_of<const float>(up, hidden, intermediate, Layout),
                                              matrix_of<const float>(down, intermediate, hidden, Layout)};
  const any_shape::three<float> gradients{matrix_of<float>(g_gate, hidden, intermediate, Layout),
                                          matrix_of<float>(g_up, hidden, intermediate, Layout),
                                          matrix_of<float>(g_down, intermediate, hidden, Layout)};
  // Memory as it may come from anywhere: not aligned, and full of NaN.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> memory(tokens * any_shape::saved_columns(intermediate) + 1, nan);
  any_shape::workspace<float> scratch;
  swiglu::serial threads;
  swiglu::tensor<float, swiglu::dynamic, hidden> my_out(tokens), my_grad_x(tokens);
  const any_shape::saved<float> saved(memory.data() + 1, tokens, intermediate);
  CHECK(saved.used() < memory.size());
  memory.back() = 7;  // not ours
  any_shape::forward<Layout, float>(scratch, threads, x.view(), weights, saved, my_out.view());
  any_shape::backward<Layout, float>(scratch, threads, grad_out.view(), x.view(), weights,
                                     any_shape::saved<const float>(memory.data() + 1, tokens, intermediate),
                                     my_grad_x.view(), gradients);
  if (saved.used() + 1 < memory.size()) CHECK(memory.back() == 7);

  CHECK(distance(my_out.view(), out.view()) <= 1e-5);
  CHECK(distance(my_grad_x.view(), grad_x.view()) <= 1e-5);
  const std::vector<float> e_gate = in_layout(g.gate.view(), Layout), e_up = in_layout(g.up.view(), Layout),
                           e_down = in_layout(g.down.view(), Layout);
  const auto row = [](const std::vector<float>& v) { return make_matrix<const float>(v.data(), 1, v.size()); };
  CHECK(distance(row(g_gate), row(e_gate)) <= 1e-5);
  CHECK(distance(row(g_up), row(e_up)) <= 1e-5);
  CHECK(distance(row(g_down), row(e_down)) <= 1e-5);
}

}  // namespace

TEST_CASE("run-time extents compute what compile-time extents compute") {
  for (const std::size_t tokens : {std::size_t{0}, std::size_t{1}, std::size_t{13}}) {
    compare<layout::in_out>(tokens);
    compare<layout::out_in>(tokens);
  }
}

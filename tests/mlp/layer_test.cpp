// SPDX-License-Identifier: MIT

// The layer on numbers that are known: by hand, by another program, or because there is only one thing they can be.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include <swiglu/comm/launch.hpp>

#include "mlp/step.hpp"
#include "support/build.hpp"

namespace {

using swiglu::dims;
using swiglu::dynamic;
using swiglu::extents;
using swiglu::reduction;
using swiglu::view;
using test::fused;
using test::matrix;
using test::near;
using test::near_in_norm;
using test::recompute;
using test::same_bits;
using test::tally;
using test::xla;

using numbers = std::initializer_list<double>;

template <class X>
void assign(X&& to, numbers from) {
  REQUIRE(from.size() == to.rows() * to.cols());
  auto next = from.begin();
  test::fill_with(to, [&] { return *next++; });
}
matrix table(std::size_t rows, std::size_t cols, numbers from) {
  matrix m(rows, cols);
  auto next = from.begin();
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) m(r, c) = *next++;
  return m;
}
/// Whether every element is x, exactly.
template <class X>
bool all_equal(const X& m, double x) {
  for (std::size_t r = 0; r < m.rows(); ++r)
    for (std::size_t c = 0; c < m.cols(); ++c)
      if (static_cast<double>(test::element(m, r, c)) != x) return false;
  return true;
}

/// A rectangular case small enough to follow by hand, with a zero in g_h.
using rectangular_shape = test::batch<float, 3, 2>;
constexpr dims rectangular{.hidden = 3, .intermediate = 2};

rectangular_shape rectangular_case() {
  rectangular_shape b(2);
  assign(b.x, {1, -2, .5, 0, 1, -1});
  assign(b.w.gate, {.5, -1, 1, .25, -.5, 2});
  assign(b.w.up, {1, .5, -.5, 1, 2, -1});
  assign(b.w.down, {1, -1, .5, .25, 2, -.5});
  assign(b.grad_out, {1, .5, -1, -2, 1, .25});
  return b;
}
const matrix rectangular_grad_gate = table(3, 2, {0, -.910135844, 7.48430173, 1.62040459, -7.48430173, -.255200821});
const matrix rectangular_grad_up = table(3, 2, {0, -.330348085, -3.52578993, .3044576, 3.52578993, .191064528});
const matrix rectangular_grad_down =
    table(2, 3, {5.35456078, -3.45452818, .0107717182, 1.41387106, -.329394859, -.507081967});

/// hidden 1, intermediate 2: what the two columns contribute is known apart.
constexpr dims two_columns{.hidden = 1, .intermediate = 2};
constexpr dims one_of_two_columns{.hidden = 1, .intermediate = 2, .tensor_parallel = 2};

/// All schedules on one batch. They share the reference, which takes most of the time.
template <std::size_t Hidden, std::size_t Intermediate>
void check_width(tally& cases, std::size_t tokens) {
  constexpr dims width{.hidden = Hidden, .intermediate = Intermediate};
  const test::batch<float, Hidden, Intermediate> b(tokens, Hidden + tokens);
  const test::reference exact = b.exact();
  const auto check = [&]<class S>(const char* name, S) {
    using layer = typename S::template layer<width>;
    cases(test::agrees(test::step<layer>(b), exact), name, Hidden, "x", Intermediate, "with", tokens, "tokens");
  };
  check("fused", fused{}), check("recompute", recompute{}), check("xla", xla{});
}

}  // namespace

TEST_CASE_TEMPLATE("all ones: sums of whole numbers, exact in any order", S, fused, recompute, xla) {
  using layer = typename S::template layer<dims{.hidden = 64, .intermediate = 256}>;
  test::batch_of<layer> b(128);
  for (auto* activation : {&b.x, &b.grad_out}) test::fill_with(*activation, [] { return 1; });
  test::fill_with(b.w.gate, [] { return 1; }), test::fill_with(b.w.up, [] { return 1; });
  test::fill_with(b.w.down, [] { return 1; });
  const auto r = test::step<layer>(b);  // silu(64) = 64 and silu'(64) = 1 in float
  CHECK(all_equal(r.out, 1048576));
  CHECK(all_equal(r.grad_x, 2097152));
  CHECK(all_equal(r.grad.gate, 524288));
  CHECK(all_equal(r.grad.up, 524288));
  CHECK(all_equal(r.grad.down, 524288));
}

TEST_CASE_TEMPLATE("a rectangular case, every number known", S, fused, recompute, xla) {
  using layer = typename S::template layer<rectangular>;
  const rectangular_shape b = rectangular_case();
  typename layer::saved s(2);
  typename layer::workspace ws(2);
  test::results_of<layer> r(2);
  test::step_into<layer>(b, s, ws, r);
  constexpr double close = 1e-6;
  CHECK(near_in_norm(r.out, table(2, 3, {-.682862622, 1.53232913, -.577394229, -3.19544558, 2.0295739, -1.27386955}),
                     close));
  CHECK(near_in_norm(r.grad_x, table(2, 3, {.744961802, -.557882046, -1.4899236, .238108755, 8.84099135, -10.8372264}),
                     close));
  CHECK(near_in_norm(r.grad.gate, rectangular_grad_gate, close));
  CHECK(near_in_norm(r.grad.up, rectangular_grad_up, close));
  CHECK(near_in_norm(r.grad.down, rectangular_grad_down, close));
  CHECK(r.grad.gate(0, 0) == 0);  // g_h is 0 there
  CHECK(r.grad.up(0, 0) == 0);
  CHECK(test::agrees(r, b.exact()));

  const test::kept<typename layer::saved> kept(s);
  CHECK(near(kept.h1, table(2, 2, {-1.75, -.5, 1.5, -1.75}), 0.0));
  CHECK(near(kept.h3, table(2, 2, {3, -2, -2.5, 2}), 0.0));
  if (kept.h.rows() != 0) CHECK(near(kept.h, table(2, 2, {-.77724779, .377540669, -3.06590429, -.518165193}), close));
}

TEST_CASE("the widths of real models, with few tokens") {
  tally cases;
  check_width<320, 640>(cases, 5);
  if (test::fast_build) {
    check_width<640, 1408>(cases, 5);
    check_width<1024, 2816>(cases, 5);
    check_width<320, 640>(cases, 1);
  }
  CHECK(cases);
}

TEST_CASE_TEMPLATE("one number", S, fused, recompute, xla) {
  using layer = typename S::template layer<dims{.hidden = 1, .intermediate = 1}>;
  test::batch_of<layer> b(1);
  const auto with = [&](double x, double gate, double up, double down, double grad_out) {
    assign(b.x, {x}), assign(b.w.gate, {gate}), assign(b.w.up, {up}), assign(b.w.down, {down});
    assign(b.grad_out, {grad_out});
    return test::step<layer>(b);
  };
  auto r = with(1, 1, 2, 3, 1);
  CHECK(near(r.out, table(1, 1, {4.38635147}), 1e-6));
  CHECK(near(r.grad_x, table(1, 1, {9.95237454}), 1e-6));
  CHECK(near(r.grad.gate, table(1, 1, {5.56602307}), 1e-6));
  CHECK(near(r.grad.up, table(1, 1, {2.19317574}), 1e-6));
  CHECK(near(r.grad.down, table(1, 1, {1.46211716}), 1e-6));

  // gate and up swapped would give -0.53788284
  r = with(1, 2, -1, 1, 1);
  CHECK(near(r.out, table(1, 1, {-1.76159416}), 1e-6));

  // a very large gate meets a very small up
  r = with(1, 1e30, 1e-30, 1, 1);
  CHECK(near(r.out, table(1, 1, {1}), 1e-6));
  r = with(1, -1e30, 1e30, 1, 1);
  CHECK(r.out(0, 0) == 0);
  for (const float g : {r.grad_x(0, 0), r.grad.gate(0, 0), r.grad.up(0, 0), r.grad.down(0, 0)}) CHECK(g == 0);
}

TEST_CASE_TEMPLATE("two ranks of the tensor axis: sums of what each column gives, weight gradients not summed", S,
                   fused, recompute, xla) {
  const auto set = [](auto& b, numbers gate, numbers up, numbers down) {
    assign(b.x, {1}), assign(b.grad_out, {1});
    assign(b.w.gate, gate), assign(b.w.up, up), assign(b.w.down, down);
  };
  using whole_layer = typename S::template layer<two_columns>;
  test::batch_of<whole_layer> whole(1);
  set(whole, {1, 2}, {3, 4}, {1, 1});
  const auto r = test::step<whole_layer>(whole);
  const matrix out = table(1, 1, {9.23955236}), grad_x = table(1, 1, {20.7488379});
  const matrix grad_gate = table(1, 2, {2.78301154, 4.363137}), grad_up = table(1, 2, {.731058579, 1.76159416});
  const matrix grad_down = table(2, 1, {2.19317574, 7.04637662});
  CHECK(near(r.out, out, 1e-6));
  CHECK(near(r.grad_x, grad_x, 1e-6));
  CHECK(near(r.grad.gate, grad_gate, 1e-6));
  CHECK(near(r.grad.up, grad_up, 1e-6));
  CHECK(near(r.grad.down, grad_down, 1e-6));

  using layer = typename S::template layer<one_of_two_columns>;
  std::array<test::results_of<layer>, 2> part{test::results_of<layer>(1), test::results_of<layer>(1)}, sum = part;
  swiglu::run_ranks(1, 2, [&](auto& axes) {
    const auto t = static_cast<std::size_t>(axes.tensor.rank());
    test::batch_of<layer> b(1);
    if (t == 0)
      set(b, {1}, {3}, {1});
    else
      set(b, {2}, {4}, {1});
    typename layer::saved s(1);
    typename layer::workspace ws(1);
    test::step_into<layer>(b, s, ws, part[t]);  // alone: its part of the sums
    layer::forward(b.x, b.w, s, ws, sum[t].out, axes);
    layer::backward(b.grad_out, b.x, b.w, s, ws, sum[t].grad_x, sum[t].grad, axes);
  });
  const std::array<double, 2> out_part{2.19317574, 7.04637662}, grad_x_part{4.97618727, 15.7726506};
  for (std::size_t t = 0; t < 2; ++t) {
    CHECK(near(part[t].out, table(1, 1, {out_part[t]}), 1e-6));
    CHECK(near(part[t].grad_x, table(1, 1, {grad_x_part[t]}), 1e-6));
    CHECK(near(sum[t].out, out, 1e-6));
    CHECK(near(sum[t].grad_x, grad_x, 1e-6));
    CHECK(near(sum[t].grad.gate, table(1, 1, {grad_gate(0, t)}), 1e-6));
    CHECK(near(sum[t].grad.up, table(1, 1, {grad_up(0, t)}), 1e-6));
    CHECK(near(sum[t].grad.down, table(1, 1, {grad_down(t, 0)}), 1e-6));
  }
  CHECK(same_bits(sum[0].out, sum[1].out));
  CHECK(same_bits(sum[0].grad_x, sum[1].grad_x));
}

TEST_CASE_TEMPLATE("two ranks of the data axis: weight gradients are summed, not averaged", S, fused, xla) {
  using layer = typename S::template layer<rectangular>;
  const rectangular_shape both = rectangular_case();
  std::array<test::results_of<layer>, 2> r{test::results_of<layer>(1), test::results_of<layer>(1)};
  swiglu::run_ranks(2, 1, [&](auto& axes) {
    const auto d = static_cast<std::size_t>(axes.data.rank());
    typename layer::saved s(1);
    typename layer::workspace ws(1);
    const auto x = both.x.view().row_block(d, 1), grad_out = both.grad_out.view().row_block(d, 1);
    layer::forward(x, both.w, s, ws, r[d].out, axes);
    layer::backward(grad_out, x, both.w, s, ws, r[d].grad_x, r[d].grad, axes);
  });
  const auto alone = test::step<layer>(both);
  for (std::size_t d = 0; d < 2; ++d) {
    CHECK(near_in_norm(r[d].grad.gate, rectangular_grad_gate, 1e-6));
    CHECK(near_in_norm(r[d].grad.up, rectangular_grad_up, 1e-6));
    CHECK(near_in_norm(r[d].grad.down, rectangular_grad_down, 1e-6));
    CHECK(same_bits(r[d].out, alone.out.view().row_block(d, 1)));
    CHECK(same_bits(r[d].grad_x, alone.grad_x.view().row_block(d, 1)));
  }
  CHECK(same_bits(r[0].grad.gate, r[1].grad.gate));
  CHECK(same_bits(r[0].grad.up, r[1].grad.up));
  CHECK(same_bits(r[0].grad.down, r[1].grad.down));
}

TEST_CASE_TEMPLATE("a mesh of one rank changes no bit", S, fused, recompute, xla) {
  using layer = typename S::template layer<rectangular>;
  const rectangular_shape b = rectangular_case();
  const auto alone = test::step<layer>(b);
  const auto on = [&]<reduction How>(const auto& axes) {
    test::results_of<layer> r(2);
    typename layer::saved s(2);
    typename layer::workspace ws(2);
    layer::template forward<How>(b.x, b.w, s, ws, r.out, axes);
    layer::template backward<swiglu::reductions{How, How}>(b.grad_out, b.x, b.w, s, ws, r.grad_x, r.grad, axes);
    return r;
  };
  swiglu::self self;
  CHECK(same_bits(on.template operator()<reduction::all_reduce>(swiglu::mesh{self, self}), alone));
  CHECK(same_bits(on.template operator()<reduction::reduce_scatter>(swiglu::mesh{self, self}), alone));
  CHECK(same_bits(on.template operator()<reduction::unreduced>(swiglu::mesh{self, self}), alone));
  test::results_of<layer> threads(2);
  swiglu::run_ranks(1, 1, [&](auto& axes) { threads = on.template operator()<reduction::all_reduce>(axes); });
  CHECK(same_bits(threads, alone));
}

TEST_CASE_TEMPLATE("both passes in one call", S, fused, xla) {
  using layer = typename S::template layer<rectangular>;
  const rectangular_shape b = rectangular_case();
  const auto alone = test::step<layer>(b);
  swiglu::self self;
  for (const bool mesh : {false, true}) {
    const auto [out, grad_x, gate, up, down] =
        mesh ? layer::forward_and_backward(b.x, b.w, b.grad_out, swiglu::mesh{self, self})
             : layer::forward_and_backward(b.x, b.w, b.grad_out);
    CHECK(same_bits(out, alone.out));
    CHECK(same_bits(grad_x, alone.grad_x));
    CHECK(same_bits(gate, alone.grad.gate));
    CHECK(same_bits(up, alone.grad.up));
    CHECK(same_bits(down, alone.grad.down));
  }
}

TEST_CASE_TEMPLATE("where h1 is 0, h is 0: no gradient of down, and of gate through silu'(0) = 1/2", S, fused,
                   recompute, xla) {
  using layer = typename S::template layer<rectangular>;
  rectangular_shape b = rectangular_case();
  test::fill_with(b.w.gate, [] { return 0; });
  const auto r = test::step<layer>(b);
  CHECK(all_equal(r.out, 0));
  CHECK(all_equal(r.grad.up, 0));
  CHECK(all_equal(r.grad.down, 0));
  const matrix g_h = table(2, 2, {0, 1.75, -2.875, 1.375}), h3 = table(2, 2, {3, -2, -2.5, 2});
  const matrix g_h1 = test::each([](double g, double v) { return .5 * g * v; }, g_h, h3);
  CHECK(near(r.grad.gate, test::product(test::transpose(test::to_matrix(b.x)), g_h1), 1e-6));
}

TEST_CASE_TEMPLATE("x, out and gradients of rank 3, as tensors and as views", S, fused, xla) {
  using layer = typename S::template layer<rectangular>;
  const test::batch_of<layer> b(4 * 5);
  const auto flat = test::step<layer>(b);

  swiglu::tensor<float, 4, 5, 3> x, grad_out, out, grad_x;
  swiglu::tensor<float, 4, dynamic, 3> out_too(5);
  std::copy_n(b.x.data(), x.size(), x.data()), std::copy_n(b.grad_out.data(), x.size(), grad_out.data());
  typename layer::saved s(20);
  typename layer::workspace ws(20);
  typename layer::gradients g;
  layer::forward(x, b.w, s, ws, out);
  layer::backward(grad_out, x, b.w, s, ws, grad_x, g);
  CHECK(same_bits(out, flat.out));
  CHECK(same_bits(grad_x, flat.grad_x));
  CHECK(same_bits(g.gate, flat.grad.gate));

  std::vector<float> result(20 * 3);
  const view<float, dynamic, dynamic, dynamic> into(result.data(), {5, 4, 3});
  layer::forward(view<const float, 2, dynamic, 3>(b.x.data(), {10}), b.w.view(), s, ws, into);
  CHECK(same_bits(into, flat.out));
  layer::forward(std::as_const(x), swiglu::weights_view<const float, 3, 2>(b.w), s, ws, out_too);
  CHECK(same_bits(out_too, flat.out));
  layer::backward(grad_out.view(), view<const float, dynamic, dynamic>(b.x), b.w, s, ws, into, g.view());
  CHECK(same_bits(into, flat.grad_x));
  CHECK(same_bits(g.down, flat.grad.down));
}

TEST_CASE("weights and their views convert, weights are zero at first") {
  using layer = swiglu::mlp<float, rectangular>;
  layer::weights w;
  CHECK(all_equal(w.gate, 0));
  CHECK(all_equal(w.up, 0));
  CHECK(all_equal(w.down, 0));
  const swiglu::weights_view<float, 3, 2> all = w;
  const swiglu::weights_view<const float, 3, 2> read_only = all, same = std::as_const(w);
  CHECK(read_only.gate.data() == w.gate.data());
  CHECK(same.up.data() == w.up.data());
  CHECK(all.down.data() == w.down.data());
}

TEST_CASE("flops: six, then twelve, for every token, column and element of hidden") {
  using layer = swiglu::mlp<float, dims{.hidden = 1024, .intermediate = 2816}>;
  CHECK(layer::forward_flops(512) == 2.0 * 3 * 512 * 1024 * 2816);
  CHECK(layer::backward_flops(512) == 2.0 * 6 * 512 * 1024 * 2816);
  using half = swiglu::mlp<float, dims{.hidden = 1024, .intermediate = 2816, .tensor_parallel = 2}>;
  CHECK(half::forward_flops(512) == layer::forward_flops(256));
}

TEST_CASE("the comparisons of these tests notice one wrong element of any result") {
  using layer = swiglu::mlp<float, dims{.hidden = 17, .intermediate = 33}>;
  const test::batch_of<layer> b(7);
  const test::reference exact = b.exact();
  const auto good = test::step<layer>(b);
  REQUIRE(test::agrees(good, exact));
  auto bad = good;
  REQUIRE(same_bits(bad, good));
  tally noticed;
  bad.each([&](const char* name, auto& tensor) {
    for (const std::size_t i : test::sizes{std::size_t{0}, tensor.size() / 2, tensor.size() - 1}) {
      float& element = tensor.data()[i];
      const float before = element;
      element = before + 0.01f;
      noticed(!test::agrees(bad, exact), name, i, "is 0.01 more");
      element = std::nextafter(before, 1e9f);
      noticed(!same_bits(bad, good), name, i, "is one bit more");
      element = std::nanf("");
      noticed(!test::agrees(bad, exact) && !same_bits(bad, good), name, i, "is NaN");
      element = before;
    }
  });
  CHECK(noticed);
  CHECK(same_bits(bad, good));
}

// SPDX-License-Identifier: MIT

// The layer with its weights in every layout: the same bits as with [in, out], alone and cut over a mesh.

#include <array>
#include <cstddef>
#include <stdexcept>
#include <tuple>

#include <doctest/doctest.h>

#include <swiglu/comm/launch.hpp>

#include "mlp/layouts.hpp"
#include "mlp/step.hpp"

namespace {

using swiglu::dims;
using swiglu::in_out;
using swiglu::out_in;
using swiglu::schedule;
using swiglu::weight_layout;

template <weight_layout L>
struct laid_out {
  static constexpr weight_layout value = L;
};
// Blocks of one, of fewer than a register's worth, of no power of two, of a register, of several.
using every_layout =
    std::tuple<laid_out<out_in>, laid_out<in_out.gate_up()>, laid_out<in_out.up_gate()>,
               laid_out<in_out.interleaved(1)>, laid_out<in_out.interleaved(5)>, laid_out<in_out.interleaved(16)>,
               laid_out<out_in.gate_up()>, laid_out<out_in.up_gate()>, laid_out<out_in.interleaved(1)>,
               laid_out<out_in.interleaved(5)>, laid_out<out_in.interleaved(16)>>;

/// A step under layout L of what `b` has as [in, out], its gradients brought back to [in, out].
template <class Layer, class Batch>
auto step_in_layout(const Batch& b, bool accumulate = false) {
  constexpr weight_layout L = Layer::shape.layout;
  const std::size_t tokens = b.tokens();
  const auto w = test::to_layout<L>(b.w);
  test::results<float, Layer::shape.hidden, Layer::shape.local_intermediate()> r(tokens);
  typename Layer::saved s(tokens);
  typename Layer::workspace ws(tokens);
  typename Layer::gradients g;
  Layer::forward(b.x, w, s, ws, r.out);
  if (accumulate) {
    g = w;
    Layer::backward(b.grad_out, b.x, w, s, ws, r.grad_x, swiglu::accumulate(g));
  } else {
    Layer::backward(b.grad_out, b.x, w, s, ws, r.grad_x, g);
  }
  test::from_layout(g, r.grad);
  return r;
}

/// Hidden and intermediate extents that no register divides, and that every block divides.
constexpr std::size_t hidden = 27, intermediate = 80;
template <class Layout, class Schedule = test::fused>
using layer = typename Schedule::template layer<dims{
    .hidden = hidden, .intermediate = intermediate, .layout = Layout::value}>;
using plain_layout = laid_out<in_out>;
using elementwise = test::scheduled<schedule{.cut = schedule::kernels::elementwise}>;
using checkpoint = test::scheduled<schedule::fused_checkpoint>;

TEST_CASE_TEMPLATE_DEFINE("a step has the bits of [in, out]", Layout, step_bits) {
  for (const std::size_t tokens : test::sizes{0, 1, 7, 8, 9, 33, 100}) {
    CAPTURE(tokens);
    const test::batch_of<layer<plain_layout>> b(tokens);
    CHECK(same_bits(step_in_layout<layer<Layout>>(b), test::step<layer<plain_layout>>(b)));
    CHECK(same_bits(step_in_layout<layer<Layout>>(b, true), step_in_layout<layer<plain_layout>>(b, true)));
  }
}

TEST_CASE_TEMPLATE_APPLY(step_bits, every_layout);

TEST_CASE_TEMPLATE("under every cut and with every transpose in memory", Layout, laid_out<out_in>,
                   laid_out<out_in.gate_up()>, laid_out<in_out.interleaved(5)>, laid_out<out_in.interleaved(1)>) {
  const test::batch_of<layer<plain_layout>> b(41);
  const auto check = [&]<class Schedule>(Schedule) {
    CHECK(same_bits(step_in_layout<layer<Layout, Schedule>>(b), test::step<layer<plain_layout, Schedule>>(b)));
  };
  check(test::xla{});
  check(elementwise{});
  check(checkpoint{});
}

TEST_CASE_TEMPLATE("of a small layer", Layout, laid_out<out_in>, laid_out<in_out.gate_up()>,
                   laid_out<out_in.up_gate()>, laid_out<in_out.interleaved(5)>, laid_out<out_in.interleaved(1)>) {
  constexpr std::size_t tokens = 12;
  using plain = swiglu::mlp<float, dims{.hidden = 24, .intermediate = 80, .tokens = tokens}>;
  using other = swiglu::mlp<float, dims{.hidden = 24, .intermediate = 80, .tokens = tokens, .layout = Layout::value}>;
  const test::batch_of<plain> b(tokens);
  const auto actual = step_in_layout<other>(b);
  CHECK(same_bits(actual, test::step<plain>(b)));
  CHECK(agrees(actual, b.exact()));
}

TEST_CASE("of several k blocks, and of blocks of many registers") {
  using plain = swiglu::mlp<float, dims{.hidden = 1100, .intermediate = 1152}>;
  constexpr dims shape{.hidden = 1100, .intermediate = 1152, .layout = out_in};
  constexpr dims interleaved{.hidden = 1100, .intermediate = 1152, .layout = out_in.interleaved(64)};
  const test::batch_of<plain> b(50);
  const auto expected = test::step<plain>(b);
  CHECK(same_bits(step_in_layout<swiglu::mlp<float, shape>>(b), expected));
  CHECK(same_bits(step_in_layout<swiglu::mlp<float, interleaved>>(b), expected));
}

template <class Layer, class Batch, class Results, class Axes>
void step_on(const Batch& b, const typename Layer::weights& w, Results& r, typename Layer::gradients& g,
             const Axes& axes) {
  typename Layer::saved s(b.tokens());
  typename Layer::workspace ws(b.tokens());
  Layer::forward(b.x, w, s, ws, r.out, axes);
  Layer::backward(b.grad_out, b.x, w, s, ws, r.grad_x, g, axes);
}

constexpr std::size_t width = 160;  // of the whole layer whose halves the ranks hold
using whole = swiglu::mlp<float, dims{.hidden = hidden, .intermediate = width}>;
template <class Layout>
using half = swiglu::mlp<
    float, dims{.hidden = hidden, .intermediate = width, .tensor_parallel = 2, .layout = Layout::value}>;

/// Whether rank (d, t) of a 2 x 2 mesh gets its own part, and then a step with the bits of [in, out]; `own` gets its
/// weights.
template <class Layout, class Batch, class Global, class Axes>
test::comparison check_rank(const Batch& b, const Global& global, const Axes& axes,
                            typename half<Layout>::weights& own) {
  const auto t = static_cast<std::size_t>(axes.tensor.rank());
  typename half<plain_layout>::weights w;
  swiglu::shard_weights(b.w, t, w);
  swiglu::shard_weights(global, t, own);
  if (const auto c = test::same_bits(w.gate, test::as_in_out(own).gate); !c) return c;
  test::results_of<half<plain_layout>> expected(b.tokens()), actual(b.tokens());
  typename half<Layout>::gradients g;
  step_on<half<plain_layout>>(b, w, expected, expected.grad, axes);
  step_on<half<Layout>>(b, own, actual, g, axes);
  test::from_layout(g, actual.grad);
  return same_bits(actual, expected);
}

TEST_CASE_TEMPLATE_DEFINE("a mesh cuts every layout where it cuts [in, out]", Layout, mesh_bits) {
  const test::batch_of<whole> b(6);
  const auto global = test::to_layout<Layout::value>(b.w);
  std::array<std::array<test::comparison, 2>, 2> found;
  std::array<std::array<typename half<Layout>::weights, 2>, 2> own;
  swiglu::run_ranks(2, 2, [&](auto& axes) {
    const auto d = static_cast<std::size_t>(axes.data.rank()), t = static_cast<std::size_t>(axes.tensor.rank());
    found[d][t] = check_rank<Layout>(b, global, axes, own[d][t]);
  });
  for (const auto& row : found)
    for (const auto& c : row) CHECK(c);

  swiglu::weights<float, hidden, width, Layout::value> put_back;
  for (std::size_t t = 0; t < 2; ++t) swiglu::unshard_weights(own[0][t], t, put_back);
  const auto plain = test::as_in_out(put_back);
  CHECK(test::same_bits(plain.gate, b.w.gate));
  CHECK(test::same_bits(plain.up, b.w.up));
  CHECK(test::same_bits(plain.down, b.w.down));
}

TEST_CASE_TEMPLATE_APPLY(mesh_bits, every_layout);

TEST_CASE("w1, w3 and w2 are gate, up and down") {
  swiglu::weights<float, 3, 4> w;
  CHECK(&w.w1() == &w.gate);
  CHECK(&w.w3() == &w.up);
  CHECK(&w.w2() == &w.down);
  swiglu::weights<float, 3, 4, out_in.up_gate()> packed;
  packed.gate_up(5, 2) = 7, packed.gate_up(1, 2) = 8;  // rows of up, then of gate
  CHECK(packed.w1()(1, 2) == 7);
  CHECK(packed.w3()(1, 2) == 8);
  swiglu::weights<float, 3, 4, in_out.interleaved(2)> turns;
  turns.gate_up(1, 5) = 7, turns.gate_up(1, 7) = 8;  // gate gate up up gate gate up up
  CHECK(turns.w1()(1, 3) == 7);
  CHECK(turns.w3()(1, 3) == 8);
}

TEST_CASE("weights and gradients of a packed layout that do not fit are refused") {
  constexpr weight_layout L = out_in.gate_up();
  using narrow = swiglu::mlp<float, dims{.hidden = 8, .intermediate = 16, .layout = L}>;
  swiglu::tensor<float, swiglu::dynamic, 8> x(2), out(2);
  swiglu::tensor<float, swiglu::dynamic, swiglu::dynamic> gate_up(31, 8), down(8, 16);
  struct {
    swiglu::view<float, swiglu::dynamic, swiglu::dynamic> gate_up, down;
  } w{gate_up, down};
  narrow::saved s(2);
  narrow::workspace ws(2);
  CHECK_THROWS_WITH_AS(narrow::forward(x, w, s, ws, out), "swiglu: w.gate_up: rows: expected 32, got 31",
                       swiglu::shape_error);
}

TEST_CASE("interleaved views") {
  using swiglu::along;
  float memory[48] = {};
  using columns = swiglu::interleaved_view<float, swiglu::dynamic, swiglu::dynamic, along::columns>;
  SUBCASE("whose rows are no pairs of blocks are refused") {
    CHECK_THROWS_AS(columns(memory, {2, 5}, 15, 5), swiglu::shape_error);
    CHECK_THROWS_AS(columns(memory, {2, 6}, 8, 2), swiglu::shape_error);
    CHECK_THROWS_AS(columns(memory, {2, 6}, 12, 0), swiglu::shape_error);
  }
  SUBCASE("that take turns do not overlap, and one overlaps itself") {
    const columns a(memory, {4, 6}, 12, 2), b(memory + 2, {4, 6}, 12, 2);
    CHECK_NOTHROW(evaluate(a <<= 1.0f, b <<= 2.0f));
    CHECK(memory[0] == 1);
    CHECK(memory[2] == 2);
    CHECK(memory[47] == 2);
    CHECK_THROWS_AS(evaluate(a <<= 1.0f, a <<= 2.0f), std::invalid_argument);
  }
  SUBCASE("are read transposed, and through a temporary where that disturbs what is read") {
    const columns a(memory, {4, 4}, 8, 2);
    for (std::size_t r = 0; r < 4; ++r)
      for (std::size_t c = 0; c < 4; ++c) a(r, c) = static_cast<float>(10 * r + c);
    evaluate(a <<= transpose(a));
    for (std::size_t r = 0; r < 4; ++r)
      for (std::size_t c = 0; c < 4; ++c) CHECK(a(r, c) == static_cast<float>(10 * c + r));
  }
}

}  // namespace

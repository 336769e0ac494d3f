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
#include "support/guarded.hpp"

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
using layer =
    typename Schedule::template layer<dims{.hidden = hidden, .intermediate = intermediate, .layout = Layout::value}>;
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

TEST_CASE_TEMPLATE("of a small layer", Layout, laid_out<out_in>, laid_out<in_out.gate_up()>, laid_out<out_in.up_gate()>,
                   laid_out<in_out.interleaved(5)>, laid_out<out_in.interleaved(1)>) {
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
using half =
    swiglu::mlp<float, dims{.hidden = hidden, .intermediate = width, .tensor_parallel = 2, .layout = Layout::value}>;

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

/// Packed weights whose rows lie further apart than they are long, in memory that ends where they do.
template <weight_layout L>
struct pitched {
  using shapes = swiglu::layout_detail::shapes<L, hidden, intermediate>;
  static constexpr std::size_t pitch = shapes::pair_cols + 10;
  test::guarded<float> gate_up{shapes::pair_rows, shapes::pair_cols, pitch};
  swiglu::tensor<float, shapes::cols, shapes::rows> down;

  swiglu::weights_view<float, hidden, intermediate, L> view() {
    return {swiglu::view<float, shapes::pair_rows, shapes::pair_cols>(gate_up.data(), {}, pitch), down.view()};
  }
};

TEST_CASE_TEMPLATE("packed weights and gradients with a row pitch", Layout, laid_out<in_out.gate_up()>,
                   laid_out<in_out.interleaved(1)>, laid_out<in_out.interleaved(5)>, laid_out<out_in.interleaved(1)>,
                   laid_out<out_in.interleaved(5)>) {
  constexpr weight_layout L = Layout::value;
  const test::batch_of<layer<plain_layout>> b(19);
  pitched<L> w, g;
  auto weights = w.view(), gradients = g.view();
  test::each_weight<L>(weights, b.w, [](float& to, float from) { to = from; });
  test::results_of<layer<plain_layout>> r(19);
  typename layer<Layout>::saved s(19);
  typename layer<Layout>::workspace ws(19);
  layer<Layout>::forward(b.x, weights, s, ws, r.out);
  layer<Layout>::backward(b.grad_out, b.x, weights, s, ws, r.grad_x, gradients);
  test::each_weight<L>(gradients, r.grad, [](float from, float& to) { to = from; });
  CHECK(same_bits(r, test::step<layer<plain_layout>>(b)));
  CHECK(w.gate_up.intact());
  CHECK(g.gate_up.intact());
}

TEST_CASE("a pitch that is no whole pairs of blocks is refused before anything is written") {
  using interleaved = layer<laid_out<in_out.interleaved(5)>>;
  const test::batch_of<layer<plain_layout>> b(3);
  const auto good = test::to_layout<in_out.interleaved(5)>(b.w);
  swiglu::tensor<float, hidden, 2 * intermediate + 5> wide;
  swiglu::tensor<float, intermediate, hidden> down;
  const swiglu::weights_view<float, hidden, intermediate, in_out.interleaved(5)> bad{
      swiglu::view<float, hidden, 2 * intermediate>(wide.data(), {}, 2 * intermediate + 5), down.view()};
  test::results_of<layer<plain_layout>> r(3, 7);
  interleaved::saved s(3);
  interleaved::workspace ws(3);
  interleaved::forward(b.x, good, s, ws, r.out);
  r.set(7);
  CHECK_THROWS_AS(interleaved::forward(b.x, bad, s, ws, r.out), swiglu::shape_error);
  CHECK_THROWS_AS(interleaved::backward(b.grad_out, b.x, good, s, ws, r.grad_x, bad), swiglu::shape_error);
  CHECK(same_bits(r, test::results_of<layer<plain_layout>>(3, 7)));
}

TEST_CASE("packed gradients are scattered by the rows of the matrix in memory, and accumulated after their sum") {
  constexpr weight_layout L = in_out.interleaved(2);
  constexpr std::size_t inputs = 8, outputs = 12, tokens = 5, ranks = 2;
  using other = swiglu::mlp<float, dims{.hidden = inputs, .intermediate = outputs, .layout = L}>;
  using plain = swiglu::mlp<float, dims{.hidden = inputs, .intermediate = outputs}>;
  const test::batch_of<plain> b(tokens);
  const auto w = test::to_layout<L>(b.w);
  struct share {
    swiglu::tensor<float, inputs / ranks, 2 * outputs> gate_up;
    swiglu::tensor<float, outputs / ranks, inputs> down;
  };
  std::array<share, ranks> shares;
  std::array<other::gradients, ranks> twice;
  swiglu::run_ranks(static_cast<int>(ranks), 1, [&](auto& axes) {
    const auto rank = static_cast<std::size_t>(axes.data.rank());
    swiglu::tensor<float, swiglu::dynamic, inputs> out(tokens), grad_x(tokens);
    other::saved s(tokens);
    other::workspace ws(tokens);
    other::forward(b.x, w, s, ws, out, axes);
    other::backward<swiglu::reductions{.grad_w = swiglu::reduction::reduce_scatter}>(b.grad_out, b.x, w, s, ws, grad_x,
                                                                                     shares[rank], axes);
    other::backward(b.grad_out, b.x, w, s, ws, grad_x, twice[rank], axes);
    other::backward(b.grad_out, b.x, w, s, ws, grad_x, swiglu::accumulate(twice[rank]), axes);
  });
  // Two ranks with the same batch: each sum is twice the gradient of one, without rounding.
  const auto one = test::to_layout<L>(test::step<plain>(b).grad);
  bool scattered = true, accumulated = true;
  for (std::size_t r = 0; r < inputs; ++r)
    for (std::size_t c = 0; c < 2 * outputs; ++c) {
      const float expected = 2 * one.gate_up(r, c);
      scattered = scattered && shares[r / 4].gate_up(r % 4, c) == expected;
      accumulated = accumulated && twice[0].gate_up(r, c) == 2 * expected && twice[1].gate_up(r, c) == 2 * expected;
    }
  for (std::size_t r = 0; r < outputs; ++r)
    for (std::size_t c = 0; c < inputs; ++c)
      scattered = scattered && shares[r / 6].down(r % 6, c) == 2 * one.down(r, c);
  CHECK(scattered);
  CHECK(accumulated);
}

TEST_CASE("a shard that does not fit is refused before anything is copied") {
  swiglu::weights<float, 4, 12, in_out.interleaved(2)> global;
  swiglu::weights<float, 4, 6, in_out.interleaved(2)> local;
  global.gate_up(0, 0) = 1;
  CHECK_THROWS_AS(swiglu::shard_weights(global, 2, local), swiglu::shape_error);
  CHECK_THROWS_AS(swiglu::shard_weights(global, static_cast<std::size_t>(-1), local), swiglu::shape_error);
  swiglu::weights<float, 5, 12, in_out.interleaved(2)> taller;
  CHECK_THROWS_AS(swiglu::shard_weights(taller, 0, local), swiglu::shape_error);
  CHECK(local.gate_up(0, 0) == 0);
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

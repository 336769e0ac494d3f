// SPDX-License-Identifier: MIT

// Shapes that contradict each other at run time: the exception names the argument, the extent expected and the one
// given, and comes before anything is written.

#include <doctest/doctest.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "mlp/communicators.hpp"
#include "mlp/step.hpp"

namespace {

using swiglu::accumulate;
using swiglu::dims;
using swiglu::dynamic;
using swiglu::reduction;
using swiglu::reductions;
using swiglu::shape_error;
using test::comparison;
using test::fused;
using test::recompute;
using test::same_bits;
using test::tally;
using test::xla;

using any = swiglu::view<float, dynamic, dynamic>;
using any_const = swiglu::view<const float, dynamic, dynamic>;
constexpr reduction scatter = reduction::reduce_scatter;

/// Weights or gradients of any shape.
template <class View>
struct parameters {
  View gate, up, down;
};

/// A batch of 6 tokens after its forward pass, and room for results of any shape, filled with 7.
template <class Layer>
struct setting {
  static constexpr std::size_t tokens = 6, hidden = test::hidden_of<Layer>, columns = test::intermediate_of<Layer>;

  test::batch_of<Layer> b{tokens};
  test::results_of<Layer> expected = test::step<Layer>(b);
  typename Layer::saved s{tokens};
  typename Layer::workspace ws{tokens};
  swiglu::tensor<float, 64, 64> memory;
  tally cases;

  setting() {
    Layer::forward(b.x, b.w, s, ws, to(tokens, hidden));
    test::fill_with(memory, [] { return 7; });
  }
  any to(std::size_t rows, std::size_t cols) {
    return {memory.data(), swiglu::extents<dynamic, dynamic>{rows, cols}, memory.pitch()};
  }
  any_const x(std::size_t rows = tokens, std::size_t cols = hidden) const { return input(b.x, rows, cols); }
  any_const grad_out(std::size_t rows = tokens, std::size_t cols = hidden) const {
    return input(b.grad_out, rows, cols);
  }
  parameters<any_const> w() const { return {b.w.gate.view(), b.w.up.view(), b.w.down.view()}; }
  /// Gradients of `ranks`-th parts of the rows.
  parameters<any> grad(std::size_t ranks = 1) {
    const any gate = to(hidden / ranks, columns);
    return {gate,
            gate_at(gate, 32),
            {memory.data() + 32 * 64, swiglu::extents<dynamic, dynamic>{columns / ranks, hidden}, 64}};
  }

  /// f throws exactly this, and leaves results and saved as they are.
  template <class F>
  void refused(const std::string& message, F f) {
    const test::kept<typename Layer::saved> before(s);
    comparison c{false, "nothing was thrown"};
    try {
      f();
    } catch (const shape_error& e) {
      c = {};
      if (e.what() != "swiglu: " + message) c = {false, std::string("it said: ") + e.what()};
    }
    for (const float v : memory.span())
      if (v != 7) c = {false, "something was written"};
    if (s.tokens() != tokens || !same_bits(test::kept<typename Layer::saved>(s), before)) c = {false, "saved changed"};
    cases(c, message);
  }
  /// After all that, a step works.
  void still_works() {
    test::results_of<Layer> r(tokens);
    test::step_into<Layer>(b, s, ws, r);
    cases(same_bits(r, expected), "a step afterwards");
  }

 private:
  static any_const input(const auto& tensor, std::size_t rows, std::size_t cols) {
    return {tensor.data(), swiglu::extents<dynamic, dynamic>{rows, cols}, hidden};
  }
  static any gate_at(any gate, std::size_t column) { return {gate.data() + column, gate.shape(), gate.pitch()}; }
};

constexpr dims whole{.hidden = 17, .intermediate = 21};
constexpr dims half{.hidden = 16, .intermediate = 44, .tensor_parallel = 2};

}  // namespace

TEST_CASE_TEMPLATE("forward", S, fused, recompute, xla) {
  using layer = typename S::template layer<whole>;
  setting<layer> t;
  const auto good = t.w();
  const auto forward = [&](any_const x, const parameters<any_const>& w, any out) {
    layer::forward(x, w, t.s, t.ws, out);
  };
  t.refused("forward: x: columns: expected 17, got 16", [&] { forward(t.x(6, 16), good, t.to(6, 17)); });
  t.refused("forward: out: columns: expected 17, got 18", [&] { forward(t.x(), good, t.to(6, 18)); });
  t.refused("forward: out: rows: expected 6, got 5", [&] { forward(t.x(), good, t.to(5, 17)); });
  t.refused("forward: out: rows: expected 5, got 6", [&] { forward(t.x(5), good, t.to(6, 17)); });
  t.refused("forward: out: rows: expected 0, got 6", [&] { forward(t.x(0), good, t.to(6, 17)); });

  const auto with = [&](auto member, any_const instead) {
    auto w = good;
    w.*member = instead;
    forward(t.x(), w, t.to(6, 17));
  };
  using p = parameters<any_const>;
  t.refused("w.gate: rows: expected 17, got 16", [&] { with(&p::gate, good.gate.row_block(0, 16)); });
  t.refused("w.gate: columns: expected 21, got 20", [&] { with(&p::gate, good.gate.column_block(0, 20)); });
  t.refused("w.up: rows: expected 17, got 1", [&] { with(&p::up, good.up.row_block(3, 1)); });
  t.refused("w.up: columns: expected 21, got 7", [&] { with(&p::up, good.up.column_block(3, 7)); });
  t.refused("w.down: rows: expected 21, got 17", [&] { with(&p::down, good.gate); });  // transposed
  t.refused("w.down: columns: expected 17, got 0", [&] { with(&p::down, good.down.column_block(3, 0)); });

  typename layer::saved small(5);
  typename layer::workspace narrow(4);
  t.refused("forward: tokens above the capacity of saved: expected 5, got 6",
            [&] { layer::forward(t.x(), good, small, t.ws, t.to(6, 17)); });
  t.refused("forward: tokens above the capacity of workspace: expected 4, got 6",
            [&] { layer::forward(t.x(), good, t.s, narrow, t.to(6, 17)); });
  CHECK(small.tokens() == 0);
  t.still_works();
  CHECK(t.cases);
}

TEST_CASE_TEMPLATE("more tokens than memory can have addresses", S, fused, recompute, xla) {
  using layer = typename S::template layer<whole>;
  constexpr std::size_t many = std::size_t(1) << 60;
  CHECK_THROWS_AS(typename layer::saved s(many), std::length_error);
  CHECK_THROWS_AS(typename layer::workspace ws(many), std::length_error);
}

TEST_CASE_TEMPLATE("backward", S, fused, recompute, xla) {
  using layer = typename S::template layer<whole>;
  setting<layer> t;
  const auto backward = [&](any_const grad_out, any_const x, any grad_x) {
    layer::backward(grad_out, x, t.w(), t.s, t.ws, grad_x, t.grad());
  };
  t.refused("backward: rows of x (tokens of the forward pass): expected 6, got 5",
            [&] { backward(t.grad_out(5), t.x(5), t.to(5, 17)); });
  t.refused("backward: rows of x (tokens of the forward pass): expected 6, got 0",
            [&] { backward(t.grad_out(0), t.x(0), t.to(0, 17)); });
  t.refused("backward: x: columns: expected 17, got 16", [&] { backward(t.grad_out(), t.x(6, 16), t.to(6, 17)); });
  t.refused("backward: grad_out: rows: expected 6, got 5", [&] { backward(t.grad_out(5), t.x(), t.to(6, 17)); });
  t.refused("backward: grad_out: columns: expected 17, got 3", [&] { backward(t.grad_out(6, 3), t.x(), t.to(6, 17)); });
  t.refused("backward: grad_x: rows: expected 6, got 7", [&] { backward(t.grad_out(), t.x(), t.to(7, 17)); });
  t.refused("backward: grad_x: columns: expected 17, got 16", [&] { backward(t.grad_out(), t.x(), t.to(6, 16)); });

  auto w = t.w();
  w.up = w.up.row_block(0, 16);
  t.refused("w.up: rows: expected 17, got 16",
            [&] { layer::backward(t.grad_out(), t.x(), w, t.s, t.ws, t.to(6, 17), t.grad()); });

  const auto with = [&](auto member, any instead) {
    auto g = t.grad();
    g.*member = instead;
    layer::backward(t.grad_out(), t.x(), t.w(), t.s, t.ws, t.to(6, 17), accumulate(g));
  };
  using p = parameters<any>;
  t.refused("backward: gradient of gate: rows: expected 17, got 16", [&] { with(&p::gate, t.to(16, 21)); });
  t.refused("backward: gradient of gate: columns: expected 21, got 22", [&] { with(&p::gate, t.to(17, 22)); });
  t.refused("backward: gradient of up: rows: expected 17, got 18", [&] { with(&p::up, t.to(18, 21)); });
  t.refused("backward: gradient of up: columns: expected 21, got 20", [&] { with(&p::up, t.to(17, 20)); });
  t.refused("backward: gradient of down: rows: expected 21, got 17", [&] { with(&p::down, t.to(17, 21)); });
  t.refused("backward: gradient of down: columns: expected 17, got 16", [&] { with(&p::down, t.to(21, 16)); });

  typename layer::saved small(5);
  typename layer::workspace narrow(4);
  t.refused("backward: tokens above the capacity of saved: expected 5, got 6",
            [&] { layer::backward(t.grad_out(), t.x(), t.w(), small, t.ws, t.to(6, 17), t.grad()); });
  t.refused("backward: tokens above the capacity of workspace: expected 4, got 6",
            [&] { layer::backward(t.grad_out(), t.x(), t.w(), t.s, narrow, t.to(6, 17), t.grad()); });
  t.still_works();
  CHECK(t.cases);
}

TEST_CASE_TEMPLATE("axes and shares", S, fused, xla) {
  using layer = typename S::template layer<half>;
  setting<layer> t;
  const test::echo two, four{4}, five{5};
  swiglu::self one;
  t.refused("forward: ranks of the tensor axis: expected 2, got 1", [&] {
    layer::forward(t.x(), t.w(), t.s, t.ws, t.to(6, 16), swiglu::mesh{two, one});
  });
  t.refused("forward: ranks of the tensor axis: expected 2, got 4", [&] {
    layer::forward(t.x(), t.w(), t.s, t.ws, t.to(6, 16), swiglu::mesh{one, four});
  });
  t.refused("backward: ranks of the tensor axis: expected 2, got 1", [&] {
    layer::backward(t.grad_out(), t.x(), t.w(), t.s, t.ws, t.to(6, 16), t.grad(), swiglu::mesh{two, one});
  });

  const swiglu::mesh axes{two, two};
  typename layer::saved s(5);
  layer::forward(t.x(5), t.w(), s, t.ws, swiglu::tensor<float, 5, 16>());
  t.refused("forward: out: rows to scatter divisible by 2: expected 6, got 5",
            [&] { layer::template forward<scatter>(t.x(5), t.w(), t.s, t.ws, t.to(3, 16), axes); });
  t.refused("forward: out: rows: expected 3, got 6",
            [&] { layer::template forward<scatter>(t.x(), t.w(), t.s, t.ws, t.to(6, 16), axes); });
  constexpr reductions of_x{scatter, reduction::unreduced}, of_w{reduction::unreduced, scatter};
  t.refused("backward: grad_x: rows to scatter divisible by 2: expected 6, got 5", [&] {
    layer::template backward<of_x>(t.grad_out(5), t.x(5), t.w(), s, t.ws, t.to(3, 16), t.grad(), axes);
  });
  t.refused("backward: grad_x: rows: expected 3, got 6", [&] {
    layer::template backward<of_x>(t.grad_out(), t.x(), t.w(), t.s, t.ws, t.to(6, 16), t.grad(), axes);
  });
  t.refused("backward: gradient of gate: rows: expected 8, got 16", [&] {
    layer::template backward<of_w>(t.grad_out(), t.x(), t.w(), t.s, t.ws, t.to(6, 16), t.grad(), axes);
  });
  auto part = t.grad(2);
  part.down = t.to(22, 16);
  t.refused("backward: gradient of down: rows: expected 11, got 22",
            [&] { layer::template backward<of_w>(t.grad_out(), t.x(), t.w(), t.s, t.ws, t.to(6, 16), part, axes); });
  t.refused("backward: gradient of gate: rows to scatter divisible by 5: expected 20, got 16", [&] {
    layer::template backward<of_w>(t.grad_out(), t.x(), t.w(), t.s, t.ws, t.to(6, 16), t.grad(),
                                   swiglu::mesh{five, two});
  });
  t.refused("backward: gradient of down: rows to scatter divisible by 4: expected 24, got 22", [&] {
    layer::template backward<of_w>(t.grad_out(), t.x(), t.w(), t.s, t.ws, t.to(6, 16), t.grad(4),
                                   swiglu::mesh{four, two});
  });
  t.still_works();
  CHECK(t.cases);
}

TEST_CASE("shards that do not divide") {
  swiglu::tensor<float, 2, 6, 3> global;
  swiglu::tensor<float, dynamic, 3> local(4);
  CHECK_THROWS_WITH_AS(swiglu::shard_batch(global.view(), 0, 4, local.view()),
                       "swiglu: shard_batch: batch divisible by 4: expected 8, got 6", shape_error);
  CHECK_THROWS_WITH_AS(swiglu::unshard_batch(local.view(), 0, 4, global.view()),
                       "swiglu: unshard_batch: batch divisible by 4: expected 8, got 6", shape_error);
  CHECK_THROWS_AS(swiglu::shard_batch(global.view(), 0, 0, local.view()), shape_error);
  CHECK_THROWS_AS(swiglu::shard_batch(global.view(), 3, 3, local.view()), shape_error);  // there is no such rank
  CHECK_THROWS_AS(swiglu::shard_batch(global.view(), 0, 2, local.view()), shape_error);  // 3 rows into 2

  swiglu::weights<float, 3, 6> weights;
  swiglu::weights<float, 3, 4> part;
  CHECK_THROWS_AS(swiglu::shard_weights(weights, 1, part), shape_error);
  CHECK_THROWS_AS(swiglu::unshard_weights(part, 1, weights), shape_error);
}

// SPDX-License-Identifier: MIT

// Operands that share memory: where that is allowed it changes no bit, elsewhere it is refused before anything is
// written.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

#include "mlp/communicators.hpp"
#include "mlp/step.hpp"

namespace {

using swiglu::accumulate;
using swiglu::dims;
using swiglu::dynamic;
using swiglu::reduction;
using swiglu::reductions;
using test::comparison;
using test::fused;
using test::recompute;
using test::same_bits;
using test::tally;
using test::xla;

constexpr dims tails{.hidden = 17, .intermediate = 33};
constexpr dims even{.hidden = 64, .intermediate = 96}, half{.hidden = 64, .intermediate = 192, .tensor_parallel = 2};

/// Calls f and says whether it threw std::invalid_argument, saying `what`, and left the five results as they were.
template <class Results, class F>
comparison refuses(Results& r, const std::string& what, F f) {
  const Results before = r;
  try {
    f();
  } catch (const std::invalid_argument& e) {
    if (std::string(e.what()).find(what) == std::string::npos) return {false, std::string("it said: ") + e.what()};
    if (const comparison c = same_bits(r, before); !c) return {false, "written before it threw: " + c.text};
    return {};
  }
  return {false, "nothing was thrown"};
}

/// Inputs, and outputs which differ from what a step gives.
template <class Layer>
struct setting {
  static constexpr std::size_t tokens = 8, hidden = test::hidden_of<Layer>;
  using rows = swiglu::view<float, dynamic, hidden>;
  struct views {
    swiglu::view<float, dynamic, dynamic> gate, up, down;
  };

  test::batch_of<Layer> b{tokens};
  const test::batch_of<Layer> before = b;
  typename Layer::saved s{tokens};
  typename Layer::workspace ws{tokens};
  test::results_of<Layer> r{tokens, 7};
  tally cases;

  setting() {
    Layer::forward(b.x, b.w, s, ws, r.out);
    r.set(7);
  }
  views gradients() { return {r.grad.gate.view(), r.grad.up.view(), r.grad.down.view()}; }
  template <class F>
  void refused(const char* name, F f) {
    cases(refuses(r, "overlap", f), name);
  }
  bool inputs_unchanged() const {
    return same_bits(b.x, before.x) && same_bits(b.grad_out, before.grad_out) && same_bits(b.w.gate, before.w.gate) &&
           same_bits(b.w.up, before.w.up) && same_bits(b.w.down, before.w.down);
  }
};

}  // namespace

TEST_CASE_TEMPLATE("out may be x's memory, grad_x may be grad_out's", S, fused, recompute, xla) {
  for (const std::size_t tokens : test::sizes{1, 7, 40}) {
    using layer = typename S::template layer<tails>;
    const test::batch_of<layer> b(tokens);
    const auto apart = test::step<layer>(b);
    typename layer::saved s(tokens);
    typename layer::workspace ws(tokens);
    auto in_place = b;
    typename layer::gradients g;
    layer::forward(in_place.x, b.w, s, ws, in_place.x);
    CHECK(same_bits(in_place.x, apart.out));
    layer::backward(in_place.grad_out, b.x, b.w, s, ws, in_place.grad_out, g);
    CHECK(same_bits(in_place.grad_out, apart.grad_x));
    CHECK(same_bits(g.gate, apart.grad.gate));
    CHECK(same_bits(g.up, apart.grad.up));
    CHECK(same_bits(g.down, apart.grad.down));

    // Not only the same rows: out one row further down, grad_x in the other half of the columns.
    swiglu::tensor<float, dynamic, 17> shifted(tokens + 1);
    std::copy_n(b.x.data(), b.x.size(), shifted.data());
    layer::forward(shifted.view().row_block(0, tokens), b.w, s, ws, shifted.view().row_block(1, tokens));
    CHECK(same_bits(shifted.view().row_block(1, tokens), apart.out));
    swiglu::tensor<float, dynamic, 18> wide(tokens);
    const auto left = wide.view().column_block(0, 17), right = wide.view().column_block(1, 17);
    for (std::size_t r = 0; r < tokens; ++r) std::copy_n(&b.grad_out(r, 0), 17, &left(r, 0));
    layer::backward(left, b.x, b.w, s, ws, right, g);
    CHECK(same_bits(right, apart.grad_x));
    CHECK(same_bits(g.down, apart.grad.down));
  }
}

TEST_CASE_TEMPLATE("the same in a small layer of static shape", S, fused, recompute, xla) {
  using layer = typename S::template layer<dims{.hidden = 17, .intermediate = 33, .tokens = 8}>;
  const test::batch_of<layer> b(8);
  test::results_of<layer> apart(8), shared(8);
  typename layer::saved s;
  typename layer::workspace ws;
  test::step_into<layer>(b, s, ws, apart);
  auto memory = b;
  layer::forward(memory.x, b.w, s, ws, memory.x);
  CHECK(same_bits(memory.x, apart.out));
  layer::forward(b.x, b.w, s, ws, shared.out);
  layer::backward(memory.grad_out, b.x, b.w, s, ws, memory.grad_out, shared.grad);
  shared.grad_x = memory.grad_out;
  CHECK(same_bits(shared, apart));
}

TEST_CASE_TEMPLATE("a result in a weight is refused", S, fused, recompute, xla) {
  using layer = typename S::template layer<even>;
  setting<layer> t;
  for (float* weight : {t.b.w.gate.data(), t.b.w.up.data(), t.b.w.down.data()}) {
    const typename setting<layer>::rows inside(weight + 5, {8});
    t.refused("out", [&] { layer::forward(t.b.x, t.b.w, t.s, t.ws, inside); });
    t.refused("grad_x", [&] { layer::backward(t.b.grad_out, t.b.x, t.b.w, t.s, t.ws, inside, t.r.grad); });
    auto g = t.gradients();
    for (auto* one : {&g.gate, &g.up}) {
      const auto own = std::exchange(*one, {weight, one->shape()});
      t.refused("a gradient", [&] { layer::backward(t.b.grad_out, t.b.x, t.b.w, t.s, t.ws, t.r.grad_x, g); });
      t.refused("an accumulated gradient",
                [&] { layer::backward(t.b.grad_out, t.b.x, t.b.w, t.s, t.ws, t.r.grad_x, accumulate(g)); });
      *one = own;
    }
  }
  CHECK(t.cases);
  CHECK(t.inputs_unchanged());
}

TEST_CASE_TEMPLATE("grad_x in x is refused", S, fused, recompute, xla) {
  using layer = typename S::template layer<even>;
  setting<layer> t;
  t.refused("all of it", [&] { layer::backward(t.b.grad_out, t.b.x, t.b.w, t.s, t.ws, t.b.x, t.r.grad); });
  CHECK(t.cases);
  CHECK(t.inputs_unchanged());
}

TEST_CASE_TEMPLATE("results in each other are refused", S, fused, recompute, xla) {
  using layer = typename S::template layer<even>;
  setting<layer> t;
  const auto both = [&](const char* name, auto& grad_x, auto g) {
    t.refused(name, [&] { layer::backward(t.b.grad_out, t.b.x, t.b.w, t.s, t.ws, grad_x, g); });
    t.refused(name, [&] { layer::backward(t.b.grad_out, t.b.x, t.b.w, t.s, t.ws, grad_x, accumulate(g)); });
  };
  const auto own = t.gradients();
  both("up in gate", t.r.grad_x, typename setting<layer>::views{own.gate, own.gate, own.down});
  both("down in gate", t.r.grad_x,
       typename setting<layer>::views{own.gate, own.up, {own.gate.data(), own.down.shape()}});
  both("down in up", t.r.grad_x, typename setting<layer>::views{own.gate, own.up, {own.up.data(), own.down.shape()}});
  for (const auto& one : {own.gate, own.up, own.down}) {
    const typename setting<layer>::rows inside(one.data() + 3, {8});
    both("grad_x in a gradient", inside, own);
  }
  CHECK(t.cases);
}

TEST_CASE_TEMPLATE("a weight gradient in x or grad_out is refused", S, fused, recompute, xla) {
  using layer = typename S::template layer<even>;
  setting<layer> t;
  swiglu::tensor<float, dynamic, even.hidden> large(even.intermediate);
  std::copy_n(t.b.x.data(), t.b.x.size(), large.data());
  const auto before = large;
  auto g = t.gradients();
  for (auto* one : {&g.gate, &g.up, &g.down}) {
    const auto own = std::exchange(*one, {large.data(), one->shape()});
    const auto input = large.view().row_block(0, 8);
    t.refused("in x", [&] { layer::backward(t.b.grad_out, input, t.b.w, t.s, t.ws, t.r.grad_x, g); });
    t.refused("in grad_out", [&] { layer::backward(input, t.b.x, t.b.w, t.s, t.ws, t.r.grad_x, g); });
    *one = own;
  }
  CHECK(t.cases);
  CHECK(same_bits(large, before));
}

TEST_CASE_TEMPLATE("results that travel by way of staging memory are refused as others are", S, fused, xla) {
  using layer = typename S::template layer<half>;
  setting<layer> t;
  const test::echo two;
  const swiglu::mesh axes{two, two};
  constexpr auto scatter = reduction::reduce_scatter;
  // Rows with gaps, and shares of rows, in down: [96, 64].
  const auto gaps = t.b.w.down.view().row_block(0, 16);
  const swiglu::view<float, dynamic, dynamic> pitched(gaps.data(), {8, 64}, 65);
  const auto share = t.b.w.down.view().row_block(3, 4);
  t.refused("a pitched out", [&] { layer::forward(t.b.x, t.b.w, t.s, t.ws, pitched, axes); });
  t.refused("a scattered out", [&] { layer::template forward<scatter>(t.b.x, t.b.w, t.s, t.ws, share, axes); });
  t.refused("a pitched grad_x",
            [&] { layer::backward(t.b.grad_out, t.b.x, t.b.w, t.s, t.ws, pitched, t.r.grad, axes); });
  t.refused("a scattered grad_x", [&] {
    layer::template backward<reductions{scatter, reduction::all_reduce}>(t.b.grad_out, t.b.x, t.b.w, t.s, t.ws, share,
                                                                         t.r.grad, axes);
  });
  t.refused("accumulated gradients",
            [&] { layer::backward(t.b.grad_out, t.b.x, t.b.w, t.s, t.ws, t.r.grad_x, accumulate(t.b.w), axes); });
  CHECK(t.cases);
  CHECK(t.inputs_unchanged());
}

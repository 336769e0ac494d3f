// SPDX-License-Identifier: MIT

// Every axis of a schedule: what is saved or computed again changes no bit, where the mathematics is cut changes
// rounding only, and what a schedule keeps is what it says.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <vector>

#include "../../examples/mlp2/recording.hpp"
#include "mlp/mesh.hpp"

namespace {

using swiglu::dims;
using swiglu::schedule;
using test::agrees;
using test::same_bits;
using test::tally;
using kernels = schedule::kernels;
using branches = schedule::branches;
constexpr auto materialised = schedule::transposition::materialised;

constexpr dims shape{.hidden = 17, .intermediate = 33};

template <schedule S>
auto step(const test::batch<float, 17, 33>& b) {
  return test::step<swiglu::mlp<float, shape, S>>(b);
}

/// The first schedule's results, within the mathematics' bounds; those of all others, equal to them to the bit.
template <schedule First, schedule... Others>
void same_results(tally& cases, const char* name) {
  for (const std::size_t tokens : test::sizes{0, 1, 9, 40}) {
    const test::batch<float, 17, 33> b(tokens, tokens);
    const auto expected = step<First>(b);
    cases(agrees(expected, b.exact()), name, tokens, "tokens");
    std::size_t nth = 0;
    ((++nth, cases(same_bits(step<Others>(b), expected), name, "variant", nth, "with", tokens, "tokens")), ...);
  }
}

/// Elements that a schedule keeps for 10 tokens, in matrices [10, 33] of its layout.
template <schedule S>
double matrices_kept() {
  const typename swiglu::mlp<float, shape, S>::saved s(10);
  const bool panels = S.transposes == schedule::transposition::packed;
  const std::size_t cols = panels ? swiglu::round_up(33, swiglu::pack<float>::size) : 33;
  const std::size_t rows = panels ? 11 : 10;  // panels have an odd number
  return static_cast<double>(s.bytes()) / static_cast<double>(rows * cols * sizeof(float));
}

/// The names of what travels over each axis of a 2 x 2 mesh in one step, in order, as rank 0 sees it; and that the
/// results are those of another schedule.
struct traffic {
  std::vector<std::string> data, tensor;
  bool same = true;
};
template <schedule S, schedule Like>
traffic traffic_of() {
  using mesh = test::meshed<test::scheduled<S>, 2, 2>;
  using like = test::meshed<test::scheduled<Like>, 2, 2>;
  using layer = typename mesh::layer;
  const mesh m;
  typename mesh::template per_rank<test::results_of<layer>> r(mesh::tokens), expected(mesh::tokens);
  traffic seen;
  const auto names = [](const auto& calls) {
    std::vector<std::string> all;
    for (const recorded_call& call : calls) {
      std::string text;
      for (const auto& buffer : call.buffers) text += (text.empty() ? "" : "+") + buffer.name;
      all.push_back(text);
    }
    return all;
  };
  const auto run = [&]<class Layer>(std::type_identity<Layer>, auto& axes, std::size_t d, std::size_t t, auto& to) {
    const auto b = m.part(d, t);
    typename Layer::saved s(mesh::tokens);
    typename Layer::workspace ws(mesh::tokens);
    Layer::forward(b.x, b.w, s, ws, to.out, axes);
    Layer::backward(b.grad_out, b.x, b.w, s, ws, to.grad_x, to.grad, axes);
  };
  mesh::each_rank([&](auto& rank_axes, std::size_t d, std::size_t t) {
    recording data(rank_axes.data), tensor(rank_axes.tensor);
    swiglu::mesh axes{data, tensor};
    run(std::type_identity<layer>{}, axes, d, t, r.at(d, t));
    if (d == 0 && t == 0) seen.data = names(data.calls), seen.tensor = names(tensor.calls);
    run(std::type_identity<typename like::layer>{}, rank_axes, d, t, expected.at(d, t));
  });
  for (const std::size_t d : {0U, 1U})
    for (const std::size_t t : {0U, 1U}) seen.same = seen.same && same_bits(r.at(d, t), expected.at(d, t));
  return seen;
}

}  // namespace

TEST_CASE("what is saved or computed again changes no bit, where it is cut rounding only") {
  tally cases;
  same_results<schedule{}, schedule{.save_h = false}, schedule{.save_sigmoid = true},
               schedule{.save_h = false, .save_sigmoid = true}, schedule{.checkpoint = true},
               schedule{.l1 = 1024, .l2 = 8192}>(cases, "fused");
  same_results<schedule{.cut = kernels::elementwise}, schedule{.cut = kernels::elementwise, .save_h = false},
               schedule{.cut = kernels::elementwise, .save_sigmoid = true},
               schedule{.cut = kernels::elementwise, .checkpoint = true}>(cases, "elementwise");
  same_results<schedule{.cut = kernels::unfused}, schedule{.cut = kernels::unfused, .save_h = false},
               schedule{.cut = kernels::unfused, .save_sigmoid = true},
               schedule{.cut = kernels::unfused, .checkpoint = true}>(cases, "unfused");
  CHECK(cases);
}

TEST_CASE("materialised transposes and branches of grad_x apart") {
  tally cases;
  same_results<schedule::xla,
               schedule{.cut = kernels::unfused, .transposes = materialised, .grad_x = branches::add_then_reduce}>(
      cases, "xla");
  same_results<schedule{.transposes = materialised}>(cases, "fused, materialised");
  same_results<schedule{.grad_x = branches::add_then_reduce}>(cases, "fused, two products");
  CHECK(cases);
}

TEST_CASE("the bytes between the passes are those of the matrices that a schedule keeps") {
  // Panels are padded to two registers, pairs to one: h is 64 columns wide here with AVX-512, h1 and h3 48 each.
  const double h = static_cast<double>(swiglu::round_up(33, swiglu::strip_columns<float>)) /
                   static_cast<double>(swiglu::round_up(33, swiglu::pack<float>::size));
  CHECK(matrices_kept<schedule{}>() == doctest::Approx(2 + h));
  CHECK(matrices_kept<schedule{.save_h = false}>() == doctest::Approx(2));
  CHECK(matrices_kept<schedule{.save_sigmoid = true}>() == doctest::Approx(4 + h));
  CHECK(matrices_kept<schedule{.checkpoint = true}>() == 0);
  CHECK(matrices_kept<schedule::xla>() == doctest::Approx(4));
}

TEST_CASE("sums over a mesh, in one call or several, travelling or not: the same bits") {
  using names = std::vector<std::string>;
  const auto fused = traffic_of<schedule{}, schedule{}>();
  CHECK(fused.same);
  CHECK(fused.data == names{"gate+up+down"});
  CHECK(fused.tensor == names{"out", "grad_x"});
  const auto separate = traffic_of<schedule{.bundle = false, .overlap = false}, schedule{}>();
  CHECK(separate.same);
  CHECK(separate.data == names{"gate", "up", "down"});
  CHECK(separate.tensor == names{"out", "grad_x"});
  const auto apart = traffic_of<schedule{.grad_x = branches::reduce_then_add, .overlap = false},
                                schedule{.grad_x = branches::reduce_then_add, .bundle = false, .overlap = false}>();
  CHECK(apart.same);
  CHECK(apart.data == names{"gate+up+down"});
  CHECK(apart.tensor == names{"out", "g_x_h3+g_x_h1"});
}

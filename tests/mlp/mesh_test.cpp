// SPDX-License-Identifier: MIT

// The layer on a data x tensor mesh is the layer of one rank.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>
#include <tuple>
#include <type_traits>

#include "mlp/communicators.hpp"
#include "mlp/mesh.hpp"

namespace {

using swiglu::accumulate;
using swiglu::dynamic;
using test::fused;
using test::meshed;
using test::same_bits;
using test::tally;
using test::xla;

template <class Mesh>
void equals_one_rank(tally& cases) {
  using layer = typename Mesh::layer;
  const Mesh m;
  typename Mesh::template per_rank<test::results_of<layer>> r(Mesh::tokens), minimal(Mesh::tokens), once(Mesh::tokens);
  Mesh::each_rank([&](auto& axes, std::size_t d, std::size_t t) {
    const auto b = m.part(d, t);
    typename layer::saved s(Mesh::tokens);
    typename layer::workspace ws(Mesh::tokens);
    const auto with = [&](auto& to, const auto& mesh) {
      layer::forward(b.x, b.w, s, ws, to.out, mesh);
      layer::backward(b.grad_out, b.x, b.w, s, ws, to.grad_x, to.grad, mesh);
    };
    with(r.at(d, t), axes);
    test::basic<swiglu::thread_communicator> data{axes.data}, tensor{axes.tensor};
    with(minimal.at(d, t), swiglu::mesh{data, tensor});
    auto& o = once.at(d, t);
    std::tie(o.out, o.grad_x, o.grad.gate, o.grad.up, o.grad.down) =
        layer::forward_and_backward(b.x, b.w, b.grad_out, axes);
  });

  auto sums = test::sums<Mesh>(m.terms());
  test::results_of<typename Mesh::alone> global(Mesh::sequence * Mesh::entries);
  for (std::size_t d = 0; d < Mesh::data_ranks; ++d)
    for (std::size_t t = 0; t < Mesh::tensor_ranks; ++t) {
      const auto& mine = r.at(d, t);
      swiglu::unshard_batch(mine.out.view(), d, Mesh::data_ranks, typename Mesh::global_result(global.out.data()));
      swiglu::unshard_batch(mine.grad_x.view(), d, Mesh::data_ranks,
                            typename Mesh::global_result(global.grad_x.data()));
      swiglu::unshard_weights(mine.grad, t, global.grad);
      const auto report = [&](const test::comparison& c, const char* what) {
        cases(c, Mesh::data_ranks, "x", Mesh::tensor_ranks, "rank", d, t, what);
      };
      report(same_bits(mine.out, r.at(d, 0).out), "out within the group");
      report(same_bits(mine.grad_x, r.at(d, 0).grad_x), "grad_x within the group");
      report(same_bits(mine.grad.gate, r.at(0, t).grad.gate), "grad_gate within the group");
      report(same_bits(mine.grad.up, r.at(0, t).grad.up), "grad_up within the group");
      report(same_bits(mine.grad.down, r.at(0, t).grad.down), "grad_down within the group");
      report(same_bits(minimal.at(d, t), mine), "three members are enough");
      report(same_bits(once.at(d, t), mine), "both passes in one call");
      auto& sum = sums.at(d, t);
      // The program sums the two branches of grad_x before it adds them.
      if (std::is_same_v<typename Mesh::schedule, xla>) sum.grad_x = mine.grad_x;
      report(same_bits(mine, sum), "the sum of the ranks' terms");
    }
  cases(agrees(global, m.global.exact()), Mesh::data_ranks, "x", Mesh::tensor_ranks, "the results put together");
}

/// The data ranks of a 2 x 2 mesh with `first` and `second` tokens.
template <class S>
void uneven(tally& cases, std::size_t first, std::size_t second) {
  using mesh = meshed<S, 2, 2>;
  using layer = typename mesh::layer;
  const mesh m;
  typename mesh::template per_rank<test::results_of<layer>> r(0u), more(0u), terms(0u);
  const auto part = [&](std::size_t d, std::size_t t) {
    auto b = m.part(d, t);
    const auto rows = [&, d](const auto& from) {
      swiglu::tensor<float, dynamic, mesh::hidden> to(d == 0 ? first : second);
      std::copy_n(from.data(), to.size(), to.data());
      return to;
    };
    b.x = rows(b.x), b.grad_out = rows(b.grad_out);
    return b;
  };
  mesh::each_rank([&](auto& axes, std::size_t d, std::size_t t) {
    const auto b = part(d, t);
    typename layer::saved s(b.tokens());
    typename layer::workspace ws(b.tokens());
    auto &mine = r.at(d, t), &twice = more.at(d, t);
    mine = test::results_of<layer>(b.tokens());
    layer::forward(b.x, b.w, s, ws, mine.out, axes);
    layer::backward(b.grad_out, b.x, b.w, s, ws, mine.grad_x, mine.grad, axes);
    twice = mine;
    layer::backward(b.grad_out, b.x, b.w, s, ws, twice.grad_x, accumulate(twice.grad), axes);
  });
  for (std::size_t d = 0; d < 2; ++d)
    for (std::size_t t = 0; t < 2; ++t) terms.at(d, t) = test::step<layer>(part(d, t));
  auto sums = test::sums<mesh>(terms);
  for (std::size_t d = 0; d < 2; ++d)
    for (std::size_t t = 0; t < 2; ++t) {
      auto &mine = r.at(d, t), &sum = sums.at(d, t);
      if (std::is_same_v<S, xla>) sum.grad_x = mine.grad_x;
      cases(same_bits(mine, sum), first, "and", second, "tokens, rank", d, t);
      auto& twice = more.at(d, t);
      test::add_to(sum.grad.gate, mine.grad.gate), test::add_to(sum.grad.up, mine.grad.up);
      test::add_to(sum.grad.down, mine.grad.down);
      cases(same_bits(twice, sum), first, "and", second, "tokens, accumulated, rank", d, t);
    }
}

}  // namespace

TEST_CASE_TEMPLATE("any mesh: the results of one rank, the same bits within each group", S, fused, xla) {
  tally cases;
  equals_one_rank<meshed<S, 1, 1>>(cases);
  equals_one_rank<meshed<S, 2, 1>>(cases);
  equals_one_rank<meshed<S, 1, 2>>(cases);
  equals_one_rank<meshed<S, 2, 2>>(cases);
  equals_one_rank<meshed<S, 4, 1>>(cases);
  equals_one_rank<meshed<S, 1, 4>>(cases);
  CHECK(cases);
}

TEST_CASE_TEMPLATE("data ranks with different numbers of tokens, and with none, take part", S, fused, xla) {
  tally cases;
  uneven<S>(cases, 12, 5);
  uneven<S>(cases, 0, 7);
  uneven<S>(cases, 3, 0);
  uneven<S>(cases, 0, 0);
  CHECK(cases);
}

TEST_CASE("a rank that throws frees the others, whatever they wait for") {
  using mesh = meshed<fused, 2, 2>;
  using layer = mesh::layer;
  const mesh m;
  for (const bool in_forward : {true, false})
    for (const std::size_t guilty : test::sizes{0, 3}) {
      mesh::per_rank<int> threw(0);
      const auto run = [&] {
        mesh::each_rank([&](auto& axes, std::size_t d, std::size_t t) {
          const auto b = m.part(d, t);
          const bool me = d * 2 + t == guilty;
          layer::saved s(mesh::tokens);
          layer::workspace ws(mesh::tokens);
          test::results_of<layer> r(mesh::tokens);
          const swiglu::view<float, dynamic, dynamic> wrong = r.out.view().row_block(0, mesh::tokens - 1);
          const swiglu::view<float, dynamic, dynamic> right = r.out.view();
          try {
            layer::forward(b.x, b.w, s, ws, me && in_forward ? wrong : right, axes);
            layer::backward(b.grad_out, b.x, b.w, s, ws, me && !in_forward ? wrong : right, r.grad, axes);
          } catch (const std::exception&) {
            threw.at(d, t) = 1;
            throw;
          }
        });
      };
      const std::string message =
          std::string("swiglu: ") + (in_forward ? "forward: out" : "backward: grad_x") + ": rows: expected 12, got 11";
      CHECK_THROWS_WITH_AS(run(), message.c_str(), swiglu::shape_error);
      int all = 0;
      for (const std::size_t d : test::sizes{0, 1})
        for (const std::size_t t : test::sizes{0, 1}) all += threw.at(d, t);
      // In backward the rank that shares no axis with the guilty one may have all it needs by then: it completes.
      CHECK(all >= (in_forward ? 4 : 3));
    }
}

TEST_CASE("an axis of another size than the layer's") {
  using layer = meshed<fused, 1, 2>::layer;
  const auto run = [](int data, int tensor) {
    swiglu::run_ranks(data, tensor, [](auto& axes) {
      layer::saved s(1);
      layer::workspace ws(1);
      const test::batch_of<layer> b(1);
      test::results_of<layer> r(1);
      layer::forward(b.x, b.w, s, ws, r.out, axes);
    });
  };
  CHECK_THROWS_WITH_AS(run(2, 1), "swiglu: forward: ranks of the tensor axis: expected 2, got 1", swiglu::shape_error);
  CHECK_THROWS_WITH_AS(run(1, 4), "swiglu: forward: ranks of the tensor axis: expected 2, got 4", swiglu::shape_error);
  CHECK_NOTHROW(run(1, 2));
}

// SPDX-License-Identifier: MIT

// unreduced, all_reduce, reduce_scatter and sequence_parallel, for out, grad_x and the weight gradients: views of one
// sum.

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "mlp/communicators.hpp"
#include "mlp/mesh.hpp"
#include "support/guarded.hpp"

namespace {

using swiglu::accumulate;
using swiglu::dynamic;
using swiglu::reduction;
using swiglu::reductions;
using test::comparison;
using test::fused;
using test::guarded;
using test::meshed;
using test::same_bits;
using test::tally;
using test::xla;

using any = swiglu::view<float, dynamic, dynamic>;

constexpr auto unreduced = reduction::unreduced, all_reduce = reduction::all_reduce,
               reduce_scatter = reduction::reduce_scatter, sequence_parallel = reduction::sequence_parallel;

/// The rows that rank r of n gets of a tensor.
template <class X>
auto share(const X& x, std::size_t r, std::size_t n) {
  return x.view().row_block(r * (x.rows() / n), x.rows() / n);
}

/// Whether `actual` is `before + sum`, to the bit.
template <class Actual, class Before, class Sum>
comparison is_sum(const Actual& actual, const Before& before, const Sum& sum) {
  for (std::size_t r = 0; r < actual.rows(); ++r)
    for (std::size_t c = 0; c < actual.cols(); ++c)
      if (!same_bits(test::element(actual, r, c), test::element(before, r, c) + test::element(sum, r, c)))
        return {false, "is not the sum"};
  return {};
}

/// Memory for the results of one rank: its share of the rows where a result is scattered; between guards, rows with
/// gaps.
template <class Mesh, reduction Out, reductions R>
struct room {
  static constexpr std::size_t local = Mesh::intermediate / Mesh::tensor_ranks;
  static std::size_t rows(std::size_t all, reduction how, std::size_t ranks) {
    return scatters(how) ? all / ranks : all;
  }
  struct gradients {
    any gate, up, down;
  };

  guarded<float> out, grad_x, gate, up, down;

  explicit room(std::size_t gap)
      : out(rows(Mesh::tokens, Out, Mesh::tensor_ranks), Mesh::hidden, Mesh::hidden + gap),
        grad_x(rows(Mesh::tokens, R.grad_x, Mesh::tensor_ranks), Mesh::hidden, Mesh::hidden + gap),
        gate(rows(Mesh::hidden, R.grad_w, Mesh::data_ranks), local, local + gap),
        up(rows(Mesh::hidden, R.grad_w, Mesh::data_ranks), local, local + gap),
        down(rows(local, R.grad_w, Mesh::data_ranks), Mesh::hidden, Mesh::hidden + gap) {}
  gradients grad() { return {gate.view(), up.view(), down.view()}; }
};

/// Runs a step with these choices on every rank, three times: into contiguous memory, into rows with gaps, and with
/// accumulated weight gradients; compares with the ranks' terms and their sums.
template <class Mesh, reduction Out, reductions R>
void agree(tally& cases) {
  using layer = typename Mesh::layer;
  using memory = room<Mesh, Out, R>;
  constexpr bool program = std::is_same_v<typename Mesh::schedule, xla>;
  const Mesh m;
  auto terms = m.terms();
  auto sums = test::sums<Mesh>(terms);
  if (program) {  // which sums the branches of grad_x apart: compare with its own all_reduce
    typename Mesh::template per_rank<test::results_of<layer>> r(Mesh::tokens);
    Mesh::each_rank([&](auto& axes, std::size_t d, std::size_t t) {
      const auto b = m.part(d, t);
      typename layer::saved s(Mesh::tokens);
      typename layer::workspace ws(Mesh::tokens);
      layer::forward(b.x, b.w, s, ws, r.at(d, t).out, axes);
      layer::backward(b.grad_out, b.x, b.w, s, ws, r.at(d, t).grad_x, r.at(d, t).grad, axes);
    });
    for (std::size_t d = 0; d < Mesh::data_ranks; ++d)
      for (std::size_t t = 0; t < Mesh::tensor_ranks; ++t) sums.at(d, t).grad_x = r.at(d, t).grad_x;
  }

  for (const std::size_t gap : test::sizes{0, 5})
    for (const bool add : {false, true})
      for (const bool minimal : {false, true}) {
        std::vector<std::unique_ptr<memory>> rooms;
        for (std::size_t i = 0; i < Mesh::ranks; ++i) rooms.push_back(std::make_unique<memory>(gap));
        const auto before = [](std::size_t seed, const any& shape) {
          return test::random_tensor<float>(shape.rows(), shape.cols(), seed);
        };
        Mesh::each_rank([&](auto& axes, std::size_t d, std::size_t t) {
          memory& to = *rooms[d * Mesh::tensor_ranks + t];
          const auto b = m.part(d, t);
          typename layer::saved s(Mesh::tokens);
          typename layer::workspace ws(Mesh::tokens);
          auto g = to.grad();
          if (add) test::fill(g.gate, 1), test::fill(g.up, 2), test::fill(g.down, 3);
          // With sequence parallelism a rank has its share of the inputs, too; here in rows with gaps, or without.
          const auto input = [&](const auto& whole, reduction how) {
            const bool part = how == sequence_parallel;
            const std::size_t n = part ? Mesh::tokens / Mesh::tensor_ranks : Mesh::tokens, first = part ? t * n : 0;
            auto copy = std::make_unique<guarded<float>>(n, Mesh::hidden, Mesh::hidden + gap);
            const auto v = copy->view();
            for (std::size_t r = 0; r < n; ++r)
              for (std::size_t c = 0; c < Mesh::hidden; ++c) v(r, c) = whole(first + r, c);
            return copy;
          };
          const auto run = [&](const auto& mesh) {
            layer::template forward<Out>(input(b.x, Out)->view(), b.w, s, ws, to.out.view(), mesh);
            const auto x = input(b.x, R.grad_x), grad_out = input(b.grad_out, R.grad_x);
            if (add)
              layer::template backward<R>(grad_out->view(), x->view(), b.w, s, ws, to.grad_x.view(), accumulate(g),
                                          mesh);
            else
              layer::template backward<R>(grad_out->view(), x->view(), b.w, s, ws, to.grad_x.view(), g, mesh);
          };
          if (minimal) {
            test::basic<swiglu::thread_communicator> data{axes.data}, tensor{axes.tensor};
            run(swiglu::mesh{data, tensor});
          } else {
            run(axes);
          }
        });
        for (std::size_t d = 0; d < Mesh::data_ranks; ++d)
          for (std::size_t t = 0; t < Mesh::tensor_ranks; ++t) {
            memory& to = *rooms[d * Mesh::tensor_ranks + t];
            const auto report = [&](const comparison& c, const char* what) {
              cases(c, Mesh::data_ranks, "x", Mesh::tensor_ranks, "rank", d, t, "gap", gap, "add", add, "minimal",
                    minimal, "choices", static_cast<int>(Out), static_cast<int>(R.grad_x), static_cast<int>(R.grad_w),
                    what);
            };
            const auto check = [&](guarded<float>& actual, reduction how, auto member, std::size_t rank,
                                   std::size_t ranks, std::size_t seed, const char* what) {
              const auto& expected = member(how == reduction::unreduced ? terms.at(d, t) : sums.at(d, t));
              const any is = actual.view();
              const auto mine =
                  scatters(how) ? share(expected, rank, ranks) : expected.view().row_block(0, expected.rows());
              if (program && &actual == &to.grad_x && scatters(how))
                report(test::near_in_norm(is, test::to_matrix(mine), 1e-6), what);  // the branches are added first
              else
                report(seed == 0 ? same_bits(is, mine) : is_sum(is, before(seed, is), mine), what);
              report(actual.intact(), what);
            };
            check(
                to.out, Out, [](auto& r) -> auto& { return r.out; }, t, Mesh::tensor_ranks, 0, "out");
            check(
                to.grad_x, R.grad_x, [](auto& r) -> auto& { return r.grad_x; }, t, Mesh::tensor_ranks, 0, "grad_x");
            check(
                to.gate, R.grad_w, [](auto& r) -> auto& { return r.grad.gate; }, d, Mesh::data_ranks, add ? 1 : 0,
                "grad_gate");
            check(
                to.up, R.grad_w, [](auto& r) -> auto& { return r.grad.up; }, d, Mesh::data_ranks, add ? 2 : 0,
                "grad_up");
            check(
                to.down, R.grad_w, [](auto& r) -> auto& { return r.grad.down; }, d, Mesh::data_ranks, add ? 3 : 0,
                "grad_down");
          }
      }
}

}  // namespace

TEST_CASE_TEMPLATE("2 x 2: the choices agree to the bit", S, fused, xla) {
  tally cases;
  agree<meshed<S, 2, 2>, unreduced, reductions{unreduced, unreduced}>(cases);
  agree<meshed<S, 2, 2>, all_reduce, reductions{all_reduce, all_reduce}>(cases);
  agree<meshed<S, 2, 2>, reduce_scatter, reductions{reduce_scatter, reduce_scatter}>(cases);
  agree<meshed<S, 2, 2>, sequence_parallel, reductions{sequence_parallel, all_reduce}>(cases);
  agree<meshed<S, 2, 2>, all_reduce, reductions{reduce_scatter, unreduced}>(cases);
  agree<meshed<S, 2, 2>, unreduced, reductions{all_reduce, reduce_scatter}>(cases);
  CHECK(cases);
}

TEST_CASE("4 x 1 and 1 x 4: an axis of one rank changes nothing") {
  tally cases;
  agree<meshed<fused, 4, 1>, reduce_scatter, reductions{reduce_scatter, reduce_scatter}>(cases);
  agree<meshed<fused, 4, 1>, all_reduce, reductions{all_reduce, all_reduce}>(cases);
  agree<meshed<fused, 1, 4>, reduce_scatter, reductions{reduce_scatter, reduce_scatter}>(cases);
  agree<meshed<fused, 1, 4>, all_reduce, reductions{all_reduce, all_reduce}>(cases);
  agree<meshed<fused, 1, 4>, sequence_parallel, reductions{sequence_parallel, unreduced}>(cases);
  agree<meshed<fused, 4, 1>, sequence_parallel, reductions{sequence_parallel, reduce_scatter}>(cases);
  CHECK(cases);
}

TEST_CASE_TEMPLATE("the sum of the unreduced parts is within the mathematics' bounds", S, fused, xla) {
  using mesh = meshed<S, 1, 4>;
  const mesh m;
  auto terms = m.terms();
  auto sums = test::sums<mesh>(terms);
  test::results_of<typename mesh::alone> global(mesh::tokens);
  global.out = sums.at(0, 0).out, global.grad_x = sums.at(0, 0).grad_x;
  for (std::size_t t = 0; t < 4; ++t) swiglu::unshard_weights(sums.at(0, t).grad, t, global.grad);
  CHECK(agrees(global, m.global.exact()));
}

TEST_CASE_TEMPLATE("accumulated micro-batches, then one reduction: the same sum to rounding", S, fused, xla) {
  using mesh = meshed<S, 2, 2>;
  using layer = typename mesh::layer;
  const mesh m;
  typename mesh::template per_rank<test::results_of<layer>> r(mesh::tokens, 0.0f);
  mesh::each_rank([&](auto& axes, std::size_t d, std::size_t t) {
    const auto b = m.part(d, t);
    auto& mine = r.at(d, t);
    typename layer::saved s(mesh::tokens);
    typename layer::workspace ws(mesh::tokens);
    const auto part = [](auto& tensor, std::size_t first, std::size_t count) {
      return tensor.view().row_block(first, count);
    };
    const auto step = [&]<reductions R>(std::size_t first, std::size_t count) {
      const auto x = part(b.x, first, count);
      layer::forward(x, b.w, s, ws, part(mine.out, first, count), axes);
      layer::template backward<R>(part(b.grad_out, first, count), x, b.w, s, ws, part(mine.grad_x, first, count),
                                  accumulate(mine.grad), axes);
    };
    step.template operator()<reductions{all_reduce, unreduced}>(0, 5);
    step.template operator()<reductions{all_reduce, unreduced}>(5, 4);
    step.template operator()<reductions{all_reduce, unreduced}>(9, 3);
    swiglu::all_reduce<float>(
        axes.data, std::vector<std::span<float>>{mine.grad.gate.span(), mine.grad.up.span(), mine.grad.down.span()});
  });
  test::results_of<typename mesh::alone> global(mesh::sequence * mesh::entries);
  for (std::size_t d = 0; d < 2; ++d)
    for (std::size_t t = 0; t < 2; ++t) {
      swiglu::unshard_batch(r.at(d, t).out.view(), d, 2, typename mesh::global_result(global.out.data()));
      swiglu::unshard_batch(r.at(d, t).grad_x.view(), d, 2, typename mesh::global_result(global.grad_x.data()));
      swiglu::unshard_weights(r.at(d, t).grad, t, global.grad);
      CHECK(same_bits(r.at(d, t).grad.gate, r.at(0, t).grad.gate));
    }
  CHECK(agrees(global, m.global.exact()));
}

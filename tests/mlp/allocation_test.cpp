// SPDX-License-Identifier: MIT

// After construction a training step allocates nothing: alone, on a mesh of one rank, and on a mesh of threads, where
// the results that need staging memory get it with the first step.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include <swiglu/comm/launch.hpp>

#include "mlp/step.hpp"
#include "support/allocations.hpp"
#include "support/build.hpp"

namespace {

using swiglu::accumulate;
using swiglu::dims;
using swiglu::reduction;
using swiglu::reductions;
using test::allocations_of;
using test::fused;
using test::recompute;
using test::tally;
using test::xla;

constexpr dims whole{.hidden = 64, .intermediate = 96};
constexpr dims half{.hidden = 64, .intermediate = 96, .tensor_parallel = 2};
constexpr std::size_t capacity = 40;
constexpr std::size_t token_counts[] = {40, 0, 1, 7, 39, 40};

}  // namespace

TEST_CASE("the count counts") {
  CHECK(allocations_of([] { swiglu::tensor<float, 3, 5>(); }) == 1);
  CHECK(allocations_of([] { (void)std::string(100, 'x'); }) == 1);
  CHECK(allocations_of([] {}) == 0);
}

TEST_CASE_TEMPLATE("a step of one rank", S, fused, recompute, xla) {
  using layer = typename S::template layer<whole>;
  typename layer::saved s(capacity);
  typename layer::workspace ws(capacity);
  swiglu::self self;
  const swiglu::mesh axes{self, self};
  tally cases;
  for (const std::size_t tokens : token_counts) {
    const test::batch_of<layer> b(tokens);
    test::results_of<layer> r(tokens);
    const auto none = [&](const char* what, auto f) {
      const std::size_t n = allocations_of(f);
      cases(n == 0, what, "with", tokens, "tokens allocates", n, "times");
    };
    none("forward", [&] { layer::forward(b.x, b.w, s, ws, r.out); });
    none("backward", [&] { layer::backward(b.grad_out, b.x, b.w, s, ws, r.grad_x, r.grad); });
    none("accumulating", [&] { layer::backward(b.grad_out, b.x, b.w, s, ws, r.grad_x, accumulate(r.grad)); });
    none("forward on a mesh", [&] { layer::forward(b.x, b.w, s, ws, r.out, axes); });
    none("backward on a mesh", [&] { layer::backward(b.grad_out, b.x, b.w, s, ws, r.grad_x, r.grad, axes); });
    none("scattering to oneself", [&] {
      layer::template forward<reduction::reduce_scatter>(b.x, b.w, s, ws, r.out, axes);
      layer::template backward<reductions{reduction::reduce_scatter, reduction::reduce_scatter}>(
          b.grad_out, b.x, b.w, s, ws, r.grad_x, accumulate(r.grad), axes);
    });
  }
  CHECK(cases);
}

TEST_CASE_TEMPLATE("a step of any number of tokens up to a capacity of several k blocks", S, fused, recompute, xla) {
  using layer = typename S::template layer<dims{.hidden = 20, .intermediate = 400}>;
  constexpr std::size_t most = 1100;
  typename layer::saved s(most);
  typename layer::workspace ws(most);
  test::batch_of<layer> b(most);
  test::results_of<layer> r(most);
  tally cases;
  for (std::size_t tokens = 0; tokens <= most; tokens += test::fast_build ? 17 : 171) {
    const std::size_t n = allocations_of([&] {
      const auto rows = [&](auto& m) { return m.view().row_block(0, tokens); };
      layer::forward(rows(b.x), b.w, s, ws, rows(r.out));
      layer::backward(rows(b.grad_out), rows(b.x), b.w, s, ws, rows(r.grad_x), r.grad);
    });
    cases(n == 0, tokens, "tokens allocate", n, "times");
  }
  CHECK(cases);
}

TEST_CASE_TEMPLATE("the memory of a step is that of the formula in docs/performance.md", Layer,
                   fused::layer<dims{.hidden = 100, .intermediate = 300}>,
                   fused::layer<dims{.hidden = 20, .intermediate = 9000}>) {
  constexpr std::size_t strip = swiglu::strip_columns<float>, half = strip / 2, element = sizeof(float);
  constexpr std::size_t way = 4096 / (strip * element), kernel = swiglu::vector_registers == 32 ? 12 : 6;
  constexpr swiglu::cache_sizes caches = swiglu::default_caches;
  constexpr dims shape = Layer::shape;
  const std::size_t hidden = swiglu::round_up(shape.hidden, strip),
                    whole_i = swiglu::round_up(shape.intermediate, strip),
                    half_i = swiglu::round_up(shape.intermediate, half);
  tally cases;
  for (const std::size_t tokens : test::sizes{1, 7, 33, 512, 3000}) {
    const std::size_t rows = tokens < 8 * way ? tokens | 1 : swiglu::round_up(tokens - kernel, way) + kernel;
    const typename Layer::saved s(tokens);
    const typename Layer::workspace ws(tokens);
    cases(s.bytes() == element * rows * (2 * half_i + whole_i), tokens, "tokens keep", s.bytes(), "bytes");
    const std::size_t values = element * rows * (2 * half_i + 2 * hidden);
    const std::size_t packing = caches.l2 / 2 + element * (std::min<std::size_t>(tokens, 1920) + 24) * 16 * strip;
    const std::size_t streaming = element * std::min<std::size_t>(4 * tokens, 32) * whole_i + 2 * caches.l1 + 64;
    const std::size_t most = values + std::max(packing, streaming);
    cases(ws.bytes() <= most, tokens, "tokens need", ws.bytes(), "bytes of at most", most);
    cases(ws.bytes() >= values, tokens, "tokens need", ws.bytes(), "bytes of at least", values);
  }
  CHECK(cases);
}

TEST_CASE("constructing saved and workspace allocates what bytes() says, once for each piece") {
  using layer = fused::layer<whole>;
  CHECK(allocations_of([] { typename layer::saved s(capacity); }) == 2);  // h1 with h3, h
  CHECK(allocations_of([] { typename layer::saved s(0); }) == 0);
  layer::saved s(capacity);
  CHECK(s.bytes() >= 3 * capacity * whole.intermediate * sizeof(float));
  layer::workspace ws(capacity);
  const std::size_t bytes = ws.bytes();
  CHECK(bytes > 0);
  const test::batch_of<layer> b(capacity);
  test::results_of<layer> r(capacity);
  test::step_into<layer>(b, s, ws, r);
  CHECK(ws.bytes() == bytes);
}

TEST_CASE_TEMPLATE("a step on a mesh of threads, after the first", S, fused, xla) {
  using layer = typename S::template layer<half>;
  struct counts {
    std::size_t first, plain, accumulating, pitched, scattered;
  };
  counts seen{};
  swiglu::run_ranks(2, 2, [&](auto& axes) {
    const auto d = static_cast<std::size_t>(axes.data.rank());
    typename layer::saved s(capacity);
    typename layer::workspace ws(capacity);
    const test::batch_of<layer> b(capacity, d);
    test::results_of<layer> r(capacity);
    swiglu::tensor<float, swiglu::dynamic, whole.hidden + 8> wide(capacity);
    const auto pitched = wide.view().column_block(8, whole.hidden);
    struct {
      swiglu::tensor<float, whole.hidden / 2, half.local_intermediate()> gate, up;
      swiglu::tensor<float, half.local_intermediate() / 2, whole.hidden> down;
    } part;
    const auto plain = [&] {
      layer::forward(b.x, b.w, s, ws, r.out, axes);
      layer::backward(b.grad_out, b.x, b.w, s, ws, r.grad_x, r.grad, axes);
    };
    const auto fewer = [&] {
      const auto x = b.x.view().row_block(0, 7);
      layer::forward(x, b.w, s, ws, r.out.view().row_block(0, 7), axes);
      layer::backward(b.grad_out.view().row_block(0, 7), x, b.w, s, ws, r.grad_x.view().row_block(0, 7), r.grad, axes);
    };
    const auto accumulating = [&] {
      layer::forward(b.x, b.w, s, ws, r.out, axes);
      layer::backward(b.grad_out, b.x, b.w, s, ws, r.grad_x, accumulate(r.grad), axes);
    };
    const auto pitch = [&] {
      layer::forward(b.x, b.w, s, ws, pitched, axes);
      layer::backward(b.grad_out, b.x, b.w, s, ws, pitched, r.grad, axes);
    };
    const auto scattered = [&] {
      constexpr auto scatter = reduction::reduce_scatter;
      layer::template forward<scatter>(b.x, b.w, s, ws, r.out.view().row_block(0, capacity / 2), axes);
      layer::template backward<reductions{scatter, scatter}>(b.grad_out, b.x, b.w, s, ws,
                                                             r.grad_x.view().row_block(0, capacity / 2), part, axes);
    };
    // All ranks count one another's allocations, so they take the steps together; rank 0 looks.
    const auto together = [&](std::size_t& count, auto f) {
      const auto meet = [&] {
        for (auto* axis : {&axes.data, &axes.tensor, &axes.data}) axis->all_reduce(std::span<float>());
      };
      meet();
      const std::size_t before = test::allocations_so_far.load();
      meet();
      f();
      meet();
      const std::size_t after = test::allocations_so_far.load();
      meet();
      if (axes.rank() == 0) count = after - before;
    };
    together(seen.first, plain);
    together(seen.plain, [&] { plain(), fewer(), plain(); });
    accumulating();
    together(seen.accumulating, accumulating);
    pitch();
    together(seen.pitched, pitch);
    scattered();
    together(seen.scattered, scattered);
  });
  CHECK(seen.first == 0);
  CHECK(seen.plain == 0);
  CHECK(seen.accumulating == 0);
  CHECK(seen.pitched == 0);
  CHECK(seen.scattered == 0);
}

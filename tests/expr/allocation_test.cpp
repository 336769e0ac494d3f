// SPDX-License-Identifier: MIT
// Kernels allocate nothing once their scratch memory has been used, or measured.

#include <doctest/doctest.h>

#include <cstddef>
#include <utility>

#include <swiglu/expr/evaluate.hpp>

#include "support/allocations.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"

using namespace swiglu;
using test::allocations_of;
using test::dynamic_tensor;

namespace {

/// A training step in miniature, on everything that a kernel may need memory for.
struct kernels {
  dynamic_tensor<float> x, w1, w3, out, t, sum;
  paired_panels<float> h;
  panels<float> p;
  kernels(std::size_t rows, std::size_t depth, std::size_t cols)
      : x(test::random_tensor<float>(rows, depth, 1)),
        w1(test::random_tensor<float>(depth, cols, 2)),
        w3(test::random_tensor<float>(depth, cols, 3)),
        out(rows, cols),
        t(depth, cols),
        sum(rows, cols),
        h(rows, cols),
        p(rows, cols) {}

  template <class On>
  void run(On on) {
    const auto gate = product<"h1">(x, w1);
    const auto up = product<"h3">(x, w3);
    evaluate(on, h.first() <<= gate, h.second() <<= up, p.view() <<= silu(gate) * up);
    evaluate(on, out <<= h.first() * silu_grad(h.second()) + p.view());
    evaluate(on, noalias(t) <<= product(transpose(x), out), accumulate(w1) <<= product(transpose(x), p.view()));
    evaluate(on, sum <<= product(h.first(), transpose(w1)) + product(h.second(), transpose(w3)), noalias(out) <<= 1);
  }
};

/// Four parts, one after the other.
struct team_of_four {
  static std::size_t threads() { return 4; }
  template <class F>
  static void run(std::size_t n, const F& f) {
    for (std::size_t i = 0; i < n; ++i) f(i);
  }
};

}  // namespace

TEST_CASE("the counter counts every operator new, aligned ones included") {
  int* volatile kept = nullptr;  // or the compiler leaves both out
  CHECK(allocations_of([&] { kept = new int; }) == 1);
  delete kept;
  CHECK(allocations_of([] { dynamic_tensor<float> a(3, 3); }) == 1);
  CHECK(allocations_of([] {}) == 0);
}

TEST_CASE("from the second run of the same shapes on") {
  // Square in hidden and intermediate, so that the last kernel of the step fits.
  for (const std::size_t rows : test::sizes{1, 13, 100})
    for (const std::size_t size : test::sizes{16, 33, 600}) {
      kernels k(rows, size, size);
      scratch<float> memory;
      serial one;
      k.run(resources{memory, one});
      const std::size_t bytes = memory.bytes();
      CHECK(bytes > 0);
      CHECK(allocations_of([&] { k.run(resources{memory, one}); }) == 0);
      CHECK(memory.bytes() == bytes);
    }
}

TEST_CASE("from the first run on if the memory was measured; measuring writes nothing and finds the same size") {
  kernels k(50, 200, 200), untouched(50, 200, 200);
  scratch<float> used, measured;
  serial one;
  measured.measure([&] { k.run(resources{measured, one}); });
  CHECK(test::same_bits(k.out, untouched.out));
  CHECK(test::same_bits(k.w1, untouched.w1));
  CHECK(test::same_bits(k.p.view(), untouched.p.view()));
  CHECK(allocations_of([&] { k.run(resources{measured, one}); }) == 0);
  untouched.run(resources{used, one});
  CHECK(measured.bytes() == used.bytes());
  CHECK(test::same_bits(k.sum, untouched.sum));
  CHECK(test::same_bits(k.w1, untouched.w1));
}

TEST_CASE("smaller shapes afterwards need nothing more") {
  kernels large(100, 300, 300), small(7, 40, 40);
  scratch<float> memory;
  serial one;
  large.run(resources{memory, one});
  CHECK(allocations_of([&] { small.run(resources{memory, one}); }) == 0);
}

TEST_CASE("elementwise kernels need no memory at all") {
  auto a = test::random_tensor<float>(50, 70, 1), b = a, t = test::random_tensor<float>(70, 50, 2);
  CHECK(allocations_of([&] { evaluate(a <<= silu(a) * b, b <<= a - transpose(t)); }) == 0);
}

TEST_CASE("memory measured for several threads is enough for them") {
  kernels k(50, 100, 100);
  scratch<float> memory;
  team_of_four team;
  memory.measure([&] { k.run(resources{memory, team}); });
  CHECK(allocations_of([&] { k.run(resources{memory, team}); }) == 0);
}

TEST_CASE("moved scratch memory goes on working, and so does the one moved from") {
  kernels k(13, 40, 40);
  scratch<float> from;
  serial one;
  k.run(resources{from, one});
  scratch<float> to = std::move(from);
  CHECK(allocations_of([&] { k.run(resources{to, one}); }) == 0);
  CHECK(from.bytes() == 0);  // NOLINT: that is the point
  if (from.bytes() == 0) k.run(resources{from, one});
}

// SPDX-License-Identifier: MIT
// Executors change the time, never a bit, and call their parts once.

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <swiglu/expr/evaluate.hpp>

#include "support/operands.hpp"
#include "support/thread_executor.hpp"

using namespace swiglu;
using test::dynamic_tensor;
using test::guarded;
using test::guarded_panels;

namespace {

/// Calls the parts in descending order, and claims to have as many threads as one likes.
struct backwards {
  std::size_t count;
  std::size_t threads() const { return count; }
  template <class F>
  void run(std::size_t parts, const F& f) const {
    for (std::size_t i = parts; i-- > 0;) f(i);
  }
};

}  // namespace

TEST_CASE_TEMPLATE("products: the same bits on 1, 2, 3 and 8 threads", T, float, double) {
  test::tally cases;
  for (const std::size_t depth : test::sizes{0, 33, 700})
    for (const std::size_t rows : test::sizes{0, 1, 13, 100})
      for (const std::size_t cols : test::sizes{0, 1, 17, 33, 200}) {
        const auto x = test::random_tensor<T>(rows, depth, 1), y = test::random_tensor<T>(rows, depth, 2);
        const auto u = test::random_tensor<T>(depth, cols, 3), v = test::random_tensor<T>(depth, cols, 4);
        const auto kernel = [&](auto on, auto& h1, auto& h, auto& sum) {
          const auto gate = product<"h1">(x, u);
          const auto up = product<"h3">(x, v);
          evaluate(on, h1.first() <<= gate, h1.second() <<= up, h.view() <<= silu(gate) * up);
          evaluate(on, sum.view() <<= product(x, u) + product(y, v));
        };
        serial one;
        scratch<T> memory;
        guarded_panels<T, true> expected_h1(rows, cols);
        guarded<T> expected_h(rows, cols), expected_sum(rows, cols);
        kernel(resources{memory, one}, expected_h1, expected_h, expected_sum);
        for (const std::size_t threads : test::sizes{1, 2, 3, 8}) {
          test::thread_executor team(threads);
          scratch<T> own;
          guarded_panels<T, true> h1(rows, cols);
          guarded<T> h(rows, cols, cols + 1, 1), sum(rows, cols);
          kernel(resources{own, team}, h1, h, sum);
          cases(test::same_bits(h1.first(), expected_h1.first()), threads, "threads", rows, cols, depth);
          cases(test::same_bits(h1.second(), expected_h1.second()), threads, "threads", rows, cols, depth);
          cases(test::same_bits(h.view(), expected_h.view()), threads, "threads", rows, cols, depth);
          cases(test::same_bits(sum.view(), expected_sum.view()), threads, "threads, sum", rows, cols, depth);
          cases(h1.padded() && h1.intact() && h.intact() && sum.intact(), threads, "threads", rows, cols, depth);
        }
      }
  CHECK(cases);
}

TEST_CASE("elementwise kernels: the same bits on 1, 2, 3 and 8 threads") {
  test::tally cases;
  for (const std::size_t rows : test::sizes{0, 1, 16, 17, 100})
    for (const std::size_t cols : test::sizes{0, 1, 17, 33}) {
      const auto a = test::random_tensor<float>(rows, cols, 1, -8, 8), t = test::random_tensor<float>(cols, rows, 2);
      serial one;
      scratch<float> memory;
      dynamic_tensor<float> expected(rows, cols), expected_sum(rows, cols);
      evaluate(resources{memory, one}, expected <<= silu(a), expected_sum <<= a - transpose(t));
      for (const std::size_t threads : test::sizes{1, 2, 3, 8}) {
        test::thread_executor team(threads);
        guarded<float> to(rows, cols, cols + 1, 1);
        guarded_panels<float> sum(rows, cols);
        evaluate(resources{memory, team}, to.view() <<= silu(a), sum.view() <<= a - transpose(t));
        cases(test::same_bits(to.view(), expected), threads, "threads", rows, cols);
        cases(test::same_bits(sum.view(), expected_sum), threads, "threads", rows, cols);
        cases(to.intact() && sum.intact() && sum.padded(), threads, "threads", rows, cols);
      }
    }
  CHECK(cases);
}

TEST_CASE("the parts of an executor cover everything once, each but the last a multiple of the grain") {
  test::tally cases;
  for (const std::size_t threads : test::sizes{1, 2, 3, 8, 100})
    for (const std::size_t n : test::sizes{0, 1, 2, 3, 15, 16, 17, 31, 100})
      for (const std::size_t grain : test::sizes{1, 2, 16}) {
        backwards team{threads};
        std::vector<int> seen(n);
        bool right = true;
        in_parts(team, n, grain, [&](std::size_t part, std::size_t first, std::size_t last) {
          right = right && part < threads && first <= last && last <= n && (first % grain == 0 || first == n);
          for (std::size_t i = first; i < last; ++i) ++seen[i];
        });
        for (const int times : seen) right = right && times == 1;
        cases(right, threads, n, grain);
      }
  CHECK(cases);
}

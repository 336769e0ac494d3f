// SPDX-License-Identifier: MIT

// Threads inside a rank change no bit of a step.

#include <doctest/doctest.h>

#include <cstddef>

#include "mlp/step.hpp"
#include "support/thread_executor.hpp"

namespace {

using swiglu::accumulate;
using swiglu::dims;
using test::fused;
using test::recompute;
using test::same_bits;
using test::tally;
using test::xla;

constexpr dims odd{.hidden = 3, .intermediate = 5}, wide{.hidden = 70, .intermediate = 201};

template <class S, dims D>
void any_number_of_threads(tally& cases, std::size_t tokens) {
  using alone = typename S::template layer<D>;
  using layer = typename S::template layer<D, float, test::thread_executor>;
  const test::batch_of<layer> b(tokens);
  auto expected = test::step<alone>(b);
  typename alone::saved kept_alone(tokens);
  typename alone::workspace ws_alone(tokens);
  alone::forward(b.x, b.w, kept_alone, ws_alone, expected.out);
  alone::backward(b.grad_out, b.x, b.w, kept_alone, ws_alone, expected.grad_x, accumulate(expected.grad));
  for (const std::size_t threads : test::sizes{1, 2, 3, 8}) {
    typename layer::saved s(tokens);
    typename layer::workspace ws(tokens, test::thread_executor(threads));
    test::results_of<layer> r(tokens);
    for (const int repeat : {1, 2}) {  // the second time in memory that was used
      test::step_into<layer>(b, s, ws, r);
      layer::backward(b.grad_out, b.x, b.w, s, ws, r.grad_x, accumulate(r.grad));
      cases(same_bits(r, expected), threads, "threads,", tokens, "tokens, step", repeat);
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("1, 2, 3 and 8 threads", S, fused, recompute, xla) {
  tally cases;
  for (const std::size_t tokens : test::sizes{0, 1, 17, 100}) any_number_of_threads<S, wide>(cases, tokens);
  for (const std::size_t tokens : test::sizes{1, 6}) any_number_of_threads<S, odd>(cases, tokens);
  any_number_of_threads<S, odd>(cases, 2000);
  CHECK(cases);
}

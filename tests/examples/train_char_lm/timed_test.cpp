// SPDX-License-Identifier: MIT
#include "timed.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <swiglu/comm/check.hpp>
#include <swiglu/comm/launch.hpp>
#include <swiglu/comm/self.hpp>

using namespace char_lm;

TEST_CASE("a communicator that is measured keeps the laws, and its refinements") {
  using timed_threads = timed<swiglu::thread_communicator>;
  static_assert(swiglu::tagged_communicator<timed_threads, float>);
  static_assert(swiglu::nonblocking_communicator<timed_threads, float>);
  static_assert(swiglu::reduction_order_v<timed_threads> == swiglu::reduction_order::rank_order);
  static_assert(swiglu::communicator<timed<swiglu::self>, double>);

  std::vector<std::string> broken(2);
  std::vector<seconds> spent(2);
  swiglu::run_ranks(2, [&](swiglu::thread_communicator& inner) {
    const auto rank = static_cast<std::size_t>(inner.rank());
    timed c(inner, spent[rank]);
    broken[rank] = swiglu::check_communicator(c).text();
  });
  for (const std::string& violations : broken) CHECK(violations == "");
  for (const seconds time : spent) CHECK(time.count() > 0);
}

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <thread>
#include <vector>

#include <swiglu/exec/executor.hpp>

namespace test {

/// A thread for each part, started anew every time: slow, and about the shortest executor there is.
class thread_executor {
 public:
  explicit thread_executor(std::size_t threads) : threads_(threads) {}
  std::size_t threads() const { return threads_; }
  template <class F>
  void run(std::size_t n, const F& f) const {
    std::vector<std::jthread> team;
    for (std::size_t i = 0; i < n; ++i) team.emplace_back([&f, i] { f(i); });
  }

 private:
  std::size_t threads_;
};
static_assert(swiglu::executor<thread_executor>);

}  // namespace test

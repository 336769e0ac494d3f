// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <swiglu/exec/executor.hpp>

namespace swiglu {

/// The calling thread and no other: the default.
struct serial {
  static constexpr std::size_t threads() { return 1; }
  template <class F>
  static void run(std::size_t n, const F& f) {
    for (std::size_t i = 0; i < n; ++i) f(i);
  }
};
static_assert(executor<serial>);

}  // namespace swiglu

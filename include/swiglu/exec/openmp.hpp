// SPDX-License-Identifier: MIT
#pragma once

// Included by name only, by those who compile with -fopenmp.

#include <cstddef>

#if !defined(_OPENMP)
#error "swiglu: exec/openmp.hpp needs OpenMP: compile with -fopenmp"
#endif
#include <omp.h>

#include <swiglu/exec/executor.hpp>

namespace swiglu {

/// A team of OpenMP threads for each kernel; by default as many as OpenMP would take.
class openmp {
 public:
  openmp() : openmp(static_cast<std::size_t>(omp_get_max_threads())) {}
  explicit openmp(std::size_t threads) : threads_(threads == 0 ? 1 : threads) {}
  std::size_t threads() const { return threads_; }
  template <class F>
  void run(std::size_t n, const F& f) const {
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(threads_))
    for (std::size_t i = 0; i < n; ++i) f(i);
  }

 private:
  std::size_t threads_;
};
static_assert(executor<openmp>);

}  // namespace swiglu

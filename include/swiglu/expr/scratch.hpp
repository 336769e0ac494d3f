// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <swiglu/buffer.hpp>
#include <swiglu/exec/executor.hpp>
#include <swiglu/gemm/blocking.hpp>

namespace swiglu {

/// Memory that kernels borrow while they run. It grows on demand and never shrinks: after the first kernel of the
/// largest shape (or after `measure`) nothing is allocated. Not for concurrent use.
template <class T>
class scratch {
 public:
  scratch() = default;

  /// Room for n elements, 64-byte aligned; contents unspecified. nullptr while measuring.
  T* reserve(std::size_t n) {
    largest_ = std::max(largest_, n);
    if (measuring_) return nullptr;
    if (n > memory_.size()) memory_ = buffer<T>(n);
    return memory_.data();
  }
  /// Runs f, in which every kernel only says what it needs (it reads and writes nothing), then allocates that much.
  template <class F>
  void measure(F f) {
    {
      measuring_ = true;
      const struct done {  // also when f throws
        bool& measuring;
        ~done() { measuring = false; }
      } at_the_end{measuring_};
      f();
    }
    reserve(largest_);
  }
  bool measuring() const { return measuring_; }
  std::size_t bytes() const { return memory_.size() * sizeof(T); }

 private:
  buffer<T> memory_;
  std::size_t largest_ = 0;
  bool measuring_ = false;
};

/// What a kernel runs on: scratch memory and an executor, both borrowed, and what is supposed of the caches.
template <class T, executor E>
struct resources {
  scratch<T>& memory;
  E& threads;
  cache_sizes caches = default_caches;  ///< that the blocking is computed for; changes no bit
};
template <class T, class E>
resources(scratch<T>&, E&) -> resources<T, E>;

}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// A communicator that measures another one. Any class with rank(), size() and all_reduce(span) is a communicator; the
// two further functions are refinements, which the library uses if they are there: several named buffers in one call,
// and a sum that is started now and waited for later.

#include <chrono>
#include <span>
#include <string_view>
#include <utility>

#include <swiglu/comm/collectives.hpp>

namespace char_lm {

using seconds = std::chrono::duration<double>;

/// Adds the time since its birth to a total.
class stopwatch {
 public:
  explicit stopwatch(seconds& total) : total_(total) {}
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;
  ~stopwatch() { total_ += std::chrono::steady_clock::now() - start_; }

 private:
  seconds& total_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The request of a sum that was started.
template <class R>
class timed_request {
 public:
  timed_request(R started, seconds& total) : started_(std::move(started)), total_(&total) {}

  void wait() {
    const stopwatch running(*total_);
    started_.wait();
  }
  bool test() {
    const stopwatch running(*total_);
    return started_.test();
  }

 private:
  R started_;
  seconds* total_;
};

/// Adds up the time that a rank spends in the calls of `C`, waiting for its peers included. Borrows both arguments.
template <class C>
class timed {
 public:
  static constexpr swiglu::reduction_order order = swiglu::reduction_order_v<C>;

  timed(C& communicator, seconds& total) : communicator_(communicator), total_(total) {}

  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  template <class T>
  void all_reduce(std::span<T> buffer) {
    const stopwatch running(total_);
    communicator_.all_reduce(buffer);
  }

  template <class T>
  void all_reduce(std::span<const std::span<T>> buffers, std::span<const std::string_view> names = {}) {
    const stopwatch running(total_);
    swiglu::all_reduce<T>(communicator_, buffers, names);  // whatever C can do of this
  }

  template <class T>
  auto iall_reduce(std::span<T> buffer, std::string_view name = {}) {
    const stopwatch running(total_);
    return timed_request(swiglu::start_all_reduce<T>(communicator_, buffer, name), total_);
  }

 private:
  C& communicator_;
  seconds& total_;
};

}  // namespace char_lm

// SPDX-License-Identifier: MIT
#pragma once

// For the tests of comm/. doctest's checks belong to the main thread: ranks collect what they see, the test looks at it
// after they have joined.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <swiglu/comm/threads.hpp>

namespace comm_test {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

inline double milliseconds_since(clock::time_point start) {
  return std::chrono::duration<double, std::milli>(clock::now() - start).count();
}

/// Ends the process if a test is not over in time: a test that hangs says nothing.
class time_limit {
 public:
  explicit time_limit(const char* test, std::chrono::seconds limit = 120s)
      : guard_([this, test, limit] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, limit, [this] { return over_; })) {
            std::fprintf(stderr, "%s: still running after %d s\n", test, static_cast<int>(limit.count()));
            std::_Exit(3);
          }
        }) {}
  time_limit(const time_limit&) = delete;
  time_limit& operator=(const time_limit&) = delete;
  ~time_limit() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    guard_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread guard_;
};

/// Which error a rank got, and when.
struct outcome {
  std::exception_ptr error;
  clock::time_point at;

  template <class Error>
  bool is() const {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const Error&) {
      return true;
    } catch (...) {
    }
    return false;
  }
  std::string text() const {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const std::exception& e) {
      return e.what();
    } catch (...) {
      return "?";
    }
    return {};
  }
  bool says(std::string_view part) const { return text().find(part) != std::string::npos; }
};

/// Runs fn(rank) on `ranks` threads and reports what each threw.
template <class Fn>
std::vector<outcome> outcomes(int ranks, Fn fn) {
  std::vector<outcome> seen(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      outcome& mine = seen[static_cast<std::size_t>(rank)];
      try {
        fn(rank);
      } catch (...) {
        mine.error = std::current_exception();
      }
      mine.at = clock::now();
    });
  threads.clear();
  return seen;
}

/// The exception that a call throws, or null.
template <class Fn>
outcome outcome_of(Fn fn) {
  outcome seen;
  try {
    fn();
  } catch (...) {
    seen.error = std::current_exception();
  }
  seen.at = clock::now();
  return seen;
}

/// Rounding depends on the order in which these are added.
template <class T = float>
T term(int rank, std::size_t i) {
  const auto bits = (static_cast<std::uint32_t>(i) + 1) * 2654435761U ^ static_cast<std::uint32_t>(rank + 1) * 40503U;
  const auto mixed = (bits ^ bits >> 15) * 2246822519U;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(mixed >> 25);
  } else {
    if (i % 16 == 5) return static_cast<T>(-0.0F);
    const float magnitude =
        static_cast<float>(mixed >> 8) * (1.0F / 16777216.0F) * static_cast<float>(1U << (mixed & 15U));
    return static_cast<T>(magnitude - (mixed & 16U ? 4.0F : 0.0F));
  }
}

template <class T = float>
T fold(int ranks, std::size_t i) {
  T sum = term<T>(0, i);
  for (int r = 1; r < ranks; ++r) sum = static_cast<T>(sum + term<T>(r, i));
  return sum;
}

template <class T = float>
std::vector<T> terms(int rank, std::size_t count) {
  std::vector<T> v(count);
  for (std::size_t i = 0; i < count; ++i) v[i] = term<T>(rank, i);
  return v;
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// Whether v is the ascending fold over `ranks` ranks of elements first, first + 1, ..., to the bit.
template <class T>
bool is_fold(const std::vector<T>& v, int ranks, std::size_t first = 0) {
  for (std::size_t i = 0; i < v.size(); ++i)
    if (!same_bits(v[i], fold<T>(ranks, first + i))) return false;
  return true;
}

template <class T>
bool is_terms(const std::vector<T>& v, int rank) {
  for (std::size_t i = 0; i < v.size(); ++i)
    if (!same_bits(v[i], term<T>(rank, i))) return false;
  return true;
}

/// Sanitisers slow threads down; a bound on time holds without them.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int slowness = 10;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
inline constexpr int slowness = 10;
#else
inline constexpr int slowness = 1;
#endif
#else
inline constexpr int slowness = 1;
#endif

/// Every rank of a test waits at most so long, whatever is wrong.
inline swiglu::thread_options patient(std::size_t copy_limit = 16 * 1024) {
  return {.timeout = 60s, .copy_limit = copy_limit};
}

}  // namespace comm_test

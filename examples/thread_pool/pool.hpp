// SPDX-License-Identifier: MIT
#pragma once

// A small pool of threads that stay, and the handle by which a workspace holds it: all that swiglu::executor asks for.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <stop_token>
#include <thread>
#include <vector>

namespace example {

/// `threads` threads, the caller of `run` among them. One `run` at a time.
class pool {
 public:
  explicit pool(std::size_t threads) {
    for (std::size_t i = 1; i < std::max<std::size_t>(threads, 1); ++i)
      workers_.emplace_back([this, i](std::stop_token stop) { work(i, stop); });
  }
  ~pool() {
    for (auto& worker : workers_) worker.request_stop();
    round_.fetch_add(1);
    round_.notify_all();
  }
  std::size_t threads() const { return workers_.size() + 1; }

  /// Calls f(0) ... f(n - 1), n <= threads(), each on a thread of its own; returns when all have returned.
  template <class F>
  void run(std::size_t n, const F& f) {
    job_ = [](const void* object, std::size_t i) { (*static_cast<const F*>(object))(i); };
    object_ = &f;
    parts_ = n;
    busy_.store(workers_.size());
    round_.fetch_add(1);  // publishes the job
    round_.notify_all();
    if (n > 0) f(0);
    for (std::size_t left = busy_.load(); left > 0; left = busy_.load()) busy_.wait(left);
  }

 private:
  void work(std::size_t own, const std::stop_token& stop) {
    for (std::size_t seen = 0;;) {
      round_.wait(seen);
      seen = round_.load();
      if (stop.stop_requested()) return;
      if (own < parts_) job_(object_, own);
      if (busy_.fetch_sub(1) == 1) busy_.notify_one();
    }
  }

  void (*job_)(const void*, std::size_t) = nullptr;
  const void* object_ = nullptr;
  std::size_t parts_ = 0;
  std::atomic<std::size_t> round_{0}, busy_{0};
  std::vector<std::jthread> workers_;  // last: they use what is above
};

/// The executor: a pointer to a pool, which outlives every workspace that holds one.
class on_pool {
 public:
  explicit on_pool(pool& threads) : pool_(&threads) {}
  std::size_t threads() const { return pool_->threads(); }
  template <class F>
  void run(std::size_t n, const F& f) const {
    pool_->run(n, f);
  }

 private:
  pool* pool_;
};

}  // namespace example

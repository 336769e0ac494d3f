// SPDX-License-Identifier: MIT
#pragma once

// A few threads that live as long as the process and sleep while they have nothing to do: they run the probes, and the
// elementwise passes of those peers whose own threads take no work of others.

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include <swiglu/exec/executor.hpp>

namespace bench {

/// An executor. run() is not for concurrent use.
class team {
 public:
  explicit team(std::size_t threads) {
    for (std::size_t i = 1; i < threads; ++i) workers_.emplace_back([this, i](std::stop_token stop) { work(stop, i); });
  }
  team(const team&) = delete;
  team& operator=(const team&) = delete;
  ~team() {
    for (auto& w : workers_) w.request_stop();
    call_ = nullptr;
    begin();
  }

  std::size_t threads() const { return workers_.size() + 1; }

  template <class F>
  void run(std::size_t n, const F& f) {
    if (workers_.empty()) {
      for (std::size_t i = 0; i < n; ++i) f(i);
      return;
    }
    object_ = &f;
    call_ = [](const void* object, std::size_t i) { (*static_cast<const F*>(object))(i); };
    parts_ = n;
    busy_ = workers_.size();
    begin();
    if (n > 0) f(0);
    for (std::size_t left = busy_; left != 0; left = busy_) busy_.wait(left);
  }

 private:
  void begin() {
    ++generation_;
    generation_.notify_all();
  }
  void work(const std::stop_token& stop, std::size_t i) {
    for (unsigned seen = 0;;) {
      generation_.wait(seen);
      seen = generation_;
      if (stop.stop_requested()) return;
      if (i < parts_) call_(object_, i);
      if (--busy_ == 0) busy_.notify_one();
    }
  }

  const void* object_ = nullptr;
  void (*call_)(const void*, std::size_t) = nullptr;
  std::size_t parts_ = 0;
  std::atomic<std::size_t> busy_{0};
  std::atomic<unsigned> generation_{0};
  std::vector<std::jthread> workers_;
};

/// The team of that many threads: one for the whole process.
inline team& team_of(std::size_t threads) {
  static std::mutex guard;
  static std::vector<std::unique_ptr<team>> teams;
  const std::lock_guard lock(guard);
  if (teams.size() < threads) teams.resize(threads);
  auto& found = teams[threads - 1];
  if (!found) found = std::make_unique<team>(threads);
  return *found;
}

/// The same as an executor that is passed by value.
class on_team {
 public:
  explicit on_team(std::size_t threads) : team_(&team_of(threads)) {}
  std::size_t threads() const { return team_->threads(); }
  template <class F>
  void run(std::size_t n, const F& f) const {
    team_->run(n, f);
  }

 private:
  team* team_;
};
static_assert(swiglu::executor<on_team>);

}  // namespace bench

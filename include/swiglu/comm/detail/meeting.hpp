// SPDX-License-Identifier: MIT
#pragma once

// Where the ranks of one axis meet. Each rank counts the meetings it has come to in a word of its own; a meeting is
// held when every word has reached its number. Not std::barrier, which has neither a deadline nor a way out, and whose
// waiters could not tell who is missing.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include <swiglu/comm/detail/abort_state.hpp>

namespace swiglu::comm_detail {

/// The processors this process may run on, which in a container or under taskset are fewer than the machine has.
inline int usable_cpus() noexcept {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

inline void spin_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  asm volatile("pause");
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

enum class outcome { met, pending, departed, aborted, late };

class meeting {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr clock::time_point never = clock::time_point::max();

  /// `crowded`: there are more ranks than processors, so that whoever spins keeps the awaited rank from running.
  meeting(int size, bool crowded, abort_state& state)
      : lines_(static_cast<std::size_t>(size)), crowded_(crowded), state_(state) {
    state.watch(place_);
  }

  int size() const noexcept { return static_cast<int>(lines_.size()); }

  /// Comes to the next meeting; never blocks. Returns its number.
  std::uint64_t arrive(int rank) noexcept {
    std::atomic<std::uint64_t>& mine = line(rank).arrived;
    const std::uint64_t number = mine.load(std::memory_order_relaxed) + 1;
    // Sequentially consistent, here and in look(): of the last to arrive and a rank about to sleep, at least one sees
    // the other. Only the arrival that completes the meeting wakes anybody.
    mine.store(number);
    if (sleepers_.load() != 0 && look(number) == outcome::met) place_.wake();
    return number;
  }

  /// The state of a meeting at this moment. A meeting that everybody came to was held, whatever happened since; a
  /// missing rank that departed explains more than the abort that followed from it.
  outcome look(std::uint64_t number) const noexcept {
    outcome seen = outcome::met;
    for (const rank_line& other : lines_) {
      const bool departed = other.departed.load();  // before its word, which is final if this is true
      if (other.arrived.load() >= number) continue;
      if (departed) return outcome::departed;
      seen = outcome::pending;
    }
    return seen == outcome::pending && state_.aborted() ? outcome::aborted : seen;
  }

  /// Looks for as long as a sleep and a wake would cost, or until it is not pending. In a crowd this gives the
  /// processor away each time; otherwise now and then, because the awaited rank may have been put on the same
  /// processor.
  outcome watch(std::uint64_t number) const noexcept {
    const int looks = crowded_ ? 32 : 2048;
    for (int i = 1; i <= looks; ++i) {
      if (const outcome seen = look(number); seen != outcome::pending) return seen;
      if (crowded_ || i % 64 == 0)
        std::this_thread::yield();
      else
        spin_pause();
    }
    return outcome::pending;
  }

  /// Sleeps while look() is pending, at most until `deadline`, when it returns late.
  outcome sleep(std::uint64_t number, clock::time_point deadline) {
    std::unique_lock lock(place_.mutex);
    sleepers_.fetch_add(1);
    outcome seen = look(number);
    while (seen == outcome::pending) {
      if (deadline == never) {
        place_.condition.wait(lock);
      } else if (clock::now() < deadline) {
        place_.condition.wait_until(lock, deadline);
      } else {
        seen = outcome::late;
        break;
      }
      seen = look(number);
    }
    sleepers_.fetch_sub(1);
    return seen;
  }

  bool has_arrived(int rank, std::uint64_t number) const noexcept { return line(rank).arrived.load() >= number; }

  /// A rank takes its seat once; false if it had been taken.
  bool join(int rank) noexcept { return !line(rank).joined.exchange(true); }
  bool has_joined(int rank) const noexcept { return line(rank).joined.load(); }

  /// A rank leaves for good: who waits for it, or ever will, is told. Not if it leaves because the mesh was aborted.
  void depart(int rank) noexcept {
    if (state_.aborted()) return;
    line(rank).departed.store(true);
    any_departed_.store(true);
    place_.wake();
  }
  bool any_departed() const noexcept { return any_departed_.load(); }
  bool has_departed(int rank) const noexcept { return line(rank).departed.load(); }

  /// While a rank reads or writes its peers' buffers. Refused once the mesh is aborted, because the peers may then be
  /// leaving with their buffers.
  bool begin_touching(int rank) noexcept {
    line(rank).touching.store(true);
    if (!state_.aborted()) return true;
    line(rank).touching.store(false);
    return false;
  }
  void end_touching(int rank) noexcept { line(rank).touching.store(false); }

  /// After an abort: until no peer touches anybody's buffers. They never block while they do, so this lasts as long as
  /// it takes to add up one bundle.
  void wait_for_touching() const noexcept {
    const auto touching = [](const rank_line& other) { return other.touching.load(); };
    while (std::ranges::any_of(lines_, touching)) std::this_thread::yield();
  }

 private:
  // A line of its own per rank, so that arriving disturbs only those who look.
  struct alignas(64) rank_line {
    std::atomic<std::uint64_t> arrived{0};
    std::atomic<bool> touching{false};
    std::atomic<bool> departed{false};
    std::atomic<bool> joined{false};
  };

  rank_line& line(int rank) noexcept { return lines_[static_cast<std::size_t>(rank)]; }
  const rank_line& line(int rank) const noexcept { return lines_[static_cast<std::size_t>(rank)]; }

  std::vector<rank_line> lines_;
  std::atomic<bool> any_departed_{false};
  std::atomic<int> sleepers_{0};
  sleeping_place place_;
  bool crowded_;
  abort_state& state_;
};

}  // namespace swiglu::comm_detail

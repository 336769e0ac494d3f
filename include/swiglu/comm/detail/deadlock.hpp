// SPDX-License-Identifier: MIT
#pragma once

// Notices that no rank of a mesh can go on. A single axis cannot get there, because its ranks compare their calls as
// soon as they have met; with two axes, rank 0 may wait on one for a rank that waits on the other for a rank that ...
// waits for rank 0. Nobody is late then and nobody has left, so without this only a deadline would end it.
//
// The rule has no false alarm where the thread that makes a rank's ends is the one that uses them, as in run_ranks: an
// end that is yet to be handed to another thread looks idle. Arriving is what ends a wait, and a rank arrives nowhere
// between block and unblock, both of which take the lock: so if, under the lock, every rank is blocked or gone and not
// one of the awaited meetings has been held, none ever will be. A rank that was the last to arrive at a meeting finds
// it held, and so does whoever looks for a deadlock before the sleepers of that meeting have woken.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/detail/abort_state.hpp>
#include <swiglu/comm/detail/meeting.hpp>

namespace swiglu::comm_detail {

class deadlock_watch {
 public:
  /// One rank's end of one axis.
  class alignas(64) seat {
   public:
    /// Who makes the next arrival here: while another end of the rank is blocked, this thread may still be at work.
    void use() noexcept {
      const std::thread::id me = std::this_thread::get_id();
      if (user_.load(std::memory_order_relaxed) != me) user_.store(me, std::memory_order_relaxed);
    }

   private:
    friend deadlock_watch;

    std::atomic<std::thread::id> user_{};
    const meeting* awaited_ = nullptr;  // this and below: under the lock
    std::uint64_t number_ = 0;
    bool departed_ = false;
  };

  explicit deadlock_watch(abort_state& errors) : errors_(errors), ranks_(errors.places.size()) {}

  /// `axis`: 0 or 1.
  seat& at(int rank, std::size_t axis) noexcept { return ranks_[static_cast<std::size_t>(rank)][axis]; }

  /// For as long as a rank sleeps until a meeting is held.
  class blocked {
   public:
    blocked(deadlock_watch& watch, seat& mine, const meeting& awaited, std::uint64_t number) noexcept
        : watch_(watch), mine_(mine) {
      {
        const std::lock_guard lock(watch_.mutex_);
        mine_.awaited_ = &awaited;
        mine_.number_ = number;
      }
      watch_.check();
    }
    blocked(const blocked&) = delete;
    blocked& operator=(const blocked&) = delete;
    ~blocked() {
      const std::lock_guard lock(watch_.mutex_);
      mine_.awaited_ = nullptr;
    }

   private:
    deadlock_watch& watch_;
    seat& mine_;
  };

  /// A rank has left an axis for good.
  void depart(seat& mine) noexcept {
    {
      const std::lock_guard lock(mutex_);
      mine.departed_ = true;
    }
    check();
  }

 private:
  void check() noexcept {
    std::exception_ptr error;
    try {
      const std::lock_guard lock(mutex_);
      if (std::ranges::any_of(ranks_, can_go_on) || std::ranges::none_of(ranks_, waits)) return;
      error = std::make_exception_ptr(collective_deadlock(report()));
    } catch (...) {
      error = std::current_exception();  // no memory for the report
    }
    errors_.abort(std::move(error), abort_state::nobody);  // without the lock, because it takes others
  }

  using rank_seats = std::array<seat, 2>;

  static bool is_blocked(const seat& s) noexcept { return s.awaited_ != nullptr; }
  static bool waits(const rank_seats& seats) noexcept { return std::ranges::any_of(seats, is_blocked); }

  static bool can_go_on(const rank_seats& seats) noexcept {
    const auto held = [](const seat& s) { return is_blocked(s) && s.awaited_->look(s.number_) != outcome::pending; };
    // An end that is not blocked is idle if its rank has left or is the thread that is blocked at the other end.
    const auto in_use = [&](const seat& s) {
      const auto blocked_too = [&](const seat& other) { return is_blocked(other) && same_user(s, other); };
      return !is_blocked(s) && !s.departed_ && std::ranges::none_of(seats, blocked_too);
    };
    return std::ranges::any_of(seats, held) || std::ranges::any_of(seats, in_use);
  }

  static bool same_user(const seat& idle, const seat& waiting) noexcept {
    const std::thread::id user = idle.user_.load(std::memory_order_relaxed);
    return user == std::thread::id() || user == waiting.user_.load(std::memory_order_relaxed);
  }

  std::string report() const {
    std::string text = "a deadlock, every rank waits for another or has departed: ";
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      text.append(rank == 0 ? "rank " : ", rank ")
          .append(std::to_string(rank))
          .append(" ")
          .append(waits(ranks_[rank]) ? errors_.places[rank].text() : "has departed");
    return text;
  }

  abort_state& errors_;
  std::mutex mutex_;
  std::vector<rank_seats> ranks_;
};

}  // namespace swiglu::comm_detail

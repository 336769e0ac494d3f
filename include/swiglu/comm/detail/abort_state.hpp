// SPDX-License-Identifier: MIT
#pragma once

// What the ranks of one thread mesh share across all axes: the first error, and where every rank is. One state per mesh
// and not per axis, because a rank that waits on one axis for a peer that waits on the other is freed only if both are.

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <swiglu/comm/communicator.hpp>

namespace swiglu::comm_detail {

enum class operation : std::uint8_t { none, all_reduce, reduce_scatter, all_gather };

inline std::string_view name_of(operation op) {
  constexpr std::array<std::string_view, 4> names{"none", "all_reduce", "reduce_scatter", "all_gather"};
  return names[static_cast<std::size_t>(op)];
}

/// A place for threads to sleep. The waker changes an atomic first and then calls wake(); the sleeper looks at that
/// atomic under the lock before it sleeps, so no wake is lost.
struct sleeping_place {
  std::mutex mutex;
  std::condition_variable condition;

  void wake() noexcept {
    { const std::lock_guard lock(mutex); }
    condition.notify_all();
  }
};

/// What a rank is doing, for reports: the last collective it called, on either axis, and how far it got.
class whereabouts {
 public:
  enum stage : std::uint8_t { outside, waiting, started };

  void set(stage now, std::string_view axis, operation op, std::uint64_t sequence) noexcept {
    const auto pack = [&](std::uint64_t kind) {
      return sequence << 8 | kind << 4 | static_cast<std::uint64_t>(op) << 2 | static_cast<std::uint64_t>(now);
    };
    word_.store(pack(axis == "tensor" ? 2U : axis == "data" ? 1U : 0U), std::memory_order_relaxed);
  }

  std::string text() const {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    const auto op = static_cast<operation>(word >> 2 & 3U);
    if (op == operation::none) return "has called nothing yet";
    constexpr std::array<std::string_view, 3> axes{"", "data ", "tensor "};
    const std::string call =
        std::string(axes[word >> 4 & 3U]).append(name_of(op)).append(" #").append(std::to_string(word >> 8));
    switch (static_cast<stage>(word & 3U)) {
      case waiting:
        return "waits in " + call;
      case started:
        return "has started " + call + " and does something else";
      default:
        return "is outside, after " + call;
    }
  }

 private:
  // One word, so that a report never mixes two collectives: sequence, axis, operation, stage.
  alignas(64) std::atomic<std::uint64_t> word_{0};
};

/// The first error of a mesh. Thread-safe; abort() blocks for no longer than a string is copied.
class abort_state {
 public:
  explicit abort_state(int ranks) : places(static_cast<std::size_t>(ranks)) {}

  /// Where the ranks of the mesh are, by global rank.
  std::vector<whereabouts> places;

  /// Has `place` woken by abort(). Only before the ranks start.
  void watch(sleeping_place& place) { sleepers_.push_back(&place); }

  bool aborted() const noexcept { return aborted_.load(); }

  /// Keeps the first error and frees all ranks. `rank` is the one that failed, or nobody. Without an error the reason
  /// is provisional (the rank is being unwound, by an exception that cannot be had yet) and gives way to the error with
  /// which the same rank aborts next, unless that is but a consequence of this abort.
  void abort(std::exception_ptr error, int rank) noexcept {
    const bool provisional = !error;
    std::string text = text_of(error, rank);
    {
      const std::lock_guard lock(mutex_);
      const bool first = !aborted_.load(std::memory_order_relaxed);
      if (!first && (provisional || !provisional_ || rank != rank_ || is_consequence(error))) return;
      cause_ = provisional ? std::make_exception_ptr(communicator_error(text)) : std::move(error);
      text_ = std::move(text);
      rank_ = rank;
      provisional_ = provisional;
      // Sequentially consistent: a rank that saw no abort before it touched its peers' buffers is seen touching them
      // by everyone who sees the abort (see meeting::begin_touching).
      aborted_.store(true);
    }
    for (sleeping_place* const place : sleepers_) place->wake();
  }

  static constexpr int nobody = -1;

  std::exception_ptr cause() const {
    const std::lock_guard lock(mutex_);
    return cause_;
  }

  /// Throws communicator_aborted for a rank that was in, or is about to enter, the call described by `where`.
  [[noreturn]] void raise(const std::string& where) const {
    const std::lock_guard lock(mutex_);
    throw communicator_aborted(where + ": " + text_, cause_);
  }

 private:
  static bool is_consequence(const std::exception_ptr& error) noexcept {
    try {
      std::rethrow_exception(error);
    } catch (const communicator_aborted&) {
      return true;
    } catch (...) {
      return false;
    }
  }

  static std::string text_of(const std::exception_ptr& error, int rank) noexcept try {
    std::string text = rank == nobody ? "aborted" : "aborted by rank " + std::to_string(rank);
    if (!error) return text.append(", which gave no reason (an exception may be unwinding it)");
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      return text.append(": ").append(e.what());
    } catch (...) {
      return text.append(": an exception that is not a std::exception");
    }
  } catch (...) {
    return {};  // no memory for the text: the cause itself is still reported
  }

  mutable std::mutex mutex_;
  std::atomic<bool> aborted_{false};
  std::exception_ptr cause_;
  std::string text_;
  int rank_ = nobody;
  bool provisional_ = false;
  std::vector<sleeping_place*> sleepers_;
};

}  // namespace swiglu::comm_detail

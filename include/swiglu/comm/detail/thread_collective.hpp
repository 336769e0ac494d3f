// SPDX-License-Identifier: MIT
#pragma once

// One rank's side of a collective between threads:
//
//   begin     Show the call on the board (small buffers are copied there) and arrive at the first meeting.
//   advance   Once it is held, compare the calls of all ranks, then combine:
//             copied     Every rank adds up everybody's copies for itself, and that is all.
//             in place   Rank r adds up slice r of everybody's buffers and stores the sum to everybody (all_reduce) or
//                        itself (reduce_scatter). A second meeting, after which nobody's buffers are used any more.
//
// Nothing here waits except advance(true). An error other than a mismatch aborts the mesh; before it leaves this rank,
// no peer touches this rank's buffers any more.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/detail/thread_axis.hpp>

namespace swiglu::comm_detail {

class thread_collective {
 public:
  thread_collective(const thread_options& options, thread_axis& axis, int rank)
      : options_(options), axis_(axis), rank_(rank) {}

  /// The place for the buffers of the next call.
  std::vector<shown_buffer>& buffers() noexcept {
    std::vector<shown_buffer>& next = axis_.board.call(rank_, sequence_ + 1).buffers;
    next.clear();
    return next;
  }

  /// Shows the call and arrives; `out` is for the results of reduce_scatter and all_gather. Throws, without having
  /// arrived, if buffers overlap, a rank has departed or the mesh is aborted.
  void begin(operation op, const element& type, std::byte* out = nullptr) {
    shown_call& call = axis_.board.call(rank_, sequence_ + 1);
    call.type = type;
    if (shares_memory(call, call))
      throw std::invalid_argument("swiglu: the buffers of one " + axis_.text(op) + " overlap");
    refuse_if_over(op);
    call.sequence = ++sequence_;
    call.op = op;
    call.seal();
    out_ = out;
    if (alone()) return;
    copied_ = call.bytes <= options_.copy_limit;
    if (copied_) {
      std::byte* copy = axis_.board.copy_of(rank_, sequence_);
      for (shown_buffer& buffer : call.buffers) {
        buffer.source = copy;
        copy_bytes(copy, buffer.home, buffer.count * type.size);
        copy += buffer.count * type.size;
      }
    }
    combined_ = false;
    report(whereabouts::waiting);
    meeting_ = axis_.meetings.arrive(rank_);
  }

  /// Carries the call on as far as is possible, without waiting unless it may `block`. Returns whether it is complete.
  bool advance(bool block) {
    if (alone()) {
      if (out_ != nullptr) copy_bytes(out_, mine().buffers[0].home, mine().bytes);
      return true;
    }
    try {
      if (!combined_) {
        if (!met(block)) return false;
        compare();
        if (copied_) {
          combine();
        } else {
          refuse_shared_memory();
          if (!axis_.meetings.begin_touching(rank_)) axis_.errors.raise(text());
          combine();
          axis_.meetings.end_touching(rank_);
          meeting_ = axis_.meetings.arrive(rank_);
        }
        combined_ = true;
      }
      if (!copied_ && !met(block)) return false;
    } catch (const collective_mismatch&) {
      report(whereabouts::outside);  // on all ranks alike, so that they may go on together
      throw;
    } catch (...) {
      axis_.errors.abort(std::current_exception(), axis_.member(rank_));
      retreat();
      throw;
    }
    report(whereabouts::outside);
    return true;
  }

  /// After an abort: returns when no peer uses the buffers of this call any more.
  void retreat() noexcept {
    report(whereabouts::outside);
    axis_.meetings.wait_for_touching();
  }

  void report(whereabouts::stage stage) noexcept { axis_.place(rank_).set(stage, axis_.name, mine().op, sequence_); }

 private:
  using clock = meeting::clock;

  const shown_call& shown(int rank) noexcept { return axis_.board.call(rank, sequence_); }
  const shown_call& mine() noexcept { return shown(rank_); }
  bool alone() const noexcept { return axis_.meetings.size() == 1; }  // nobody to meet, nothing to add
  std::string text() { return axis_.text(mine()); }

  static void copy_bytes(std::byte* to, const std::byte* from, std::size_t count) noexcept {
    if (count != 0) std::memcpy(to, from, count);  // memcpy takes no null pointer, an empty span has one
  }

  // ---- waiting ------------------------------------------------------------------------------------------------------

  bool met(bool block) {
    outcome seen = axis_.meetings.look(meeting_);
    if (seen == outcome::pending && block) seen = wait();
    if (seen == outcome::aborted) axis_.errors.raise(text());
    if (seen == outcome::departed) throw_departed();
    return seen == outcome::met;
  }

  outcome wait() {
    const clock::time_point start = clock::now();
    const auto in = [&](const std::optional<std::chrono::nanoseconds>& time) {
      return time && *time < meeting::never - start ? start + *time : meeting::never;
    };
    const auto late = [&] {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - start);
      return text() + " has waited for " + std::to_string(waited.count()) + " ms; " + axis_.attendance(meeting_);
    };
    const clock::time_point deadline = in(options_.timeout);
    const clock::time_point warning = options_.warn ? in(options_.warn_after) : meeting::never;
    const auto until = [&](clock::time_point time) {
      const outcome seen = axis_.meetings.watch(meeting_);
      if (seen != outcome::pending) return seen;
      const deadlock_watch::blocked blocked(axis_.deadlocks, axis_.seat(rank_), axis_.meetings, meeting_);
      return axis_.meetings.sleep(meeting_, time);
    };
    outcome seen = until(std::min(warning, deadline));
    if (seen == outcome::late && warning < deadline) {
      options_.warn(late());
      seen = until(deadline);
    }
    if (seen == outcome::late) throw collective_timeout(late());
    return seen;
  }

  [[noreturn]] void throw_departed() {
    int rank = 0;
    while (axis_.meetings.has_arrived(rank, meeting_) || !axis_.meetings.has_departed(rank)) ++rank;
    throw peer_departed(text() + ": rank " + std::to_string(rank) + " has departed; " + axis_.attendance(meeting_),
                        rank);
  }

  /// A call that cannot succeed is refused before anybody waits for it. Departures come first: they are the cause, and
  /// a rank that leaves after an abort does not count as departed.
  void refuse_if_over(operation op) {
    const auto refused = [&] { return axis_.text(op) + " refused"; };
    for (int r = 0; axis_.meetings.any_departed() && r < axis_.meetings.size(); ++r) {
      if (!axis_.meetings.has_departed(r)) continue;
      const peer_departed error(refused() + ": rank " + std::to_string(r) + " has departed", r);
      axis_.errors.abort(std::make_exception_ptr(error), axis_.member(rank_));
      throw error;
    }
    if (axis_.errors.aborted()) axis_.errors.raise(refused());
  }

  // ---- checking -----------------------------------------------------------------------------------------------------

  /// Every rank compares all calls with that of rank 0, so that all come to the same conclusion.
  void compare() {
    for (int r = 1; r < axis_.meetings.size(); ++r) {
      if (shown(r).same_as(shown(0))) continue;
      throw_mismatch(axis_.name, shown(0), shown(r), r);
    }
  }

  /// Ranks that pass the same memory would add to each other's terms while they are summed.
  void refuse_shared_memory() {
    if (mine().op != operation::all_reduce) return;  // the others only read what is shown
    for (int r = 0; r < axis_.meetings.size(); ++r)
      if (r != rank_ && shares_memory(mine(), shown(r)))
        throw std::invalid_argument("swiglu: " + text() + ": the buffers of rank " + std::to_string(rank_) +
                                    " and rank " + std::to_string(r) + " overlap");
  }

  // ---- adding up ----------------------------------------------------------------------------------------------------

  void combine() noexcept {
    const int size = axis_.meetings.size();
    const std::size_t element_size = mine().type.size;
    if (mine().op == operation::all_gather) {
      const std::size_t part = mine().bytes;
      for (int r = 0; r < size; ++r)
        copy_bytes(out_ + static_cast<std::size_t>(r) * part, shown(r).buffers[0].source, part);
    } else if (mine().op == operation::reduce_scatter) {
      const std::size_t part = mine().buffers[0].count / static_cast<std::size_t>(size);
      const std::size_t first = part * static_cast<std::size_t>(rank_);
      fold(0, first, first + part, [&](const std::byte* sum, std::size_t offset, std::size_t bytes) {
        copy_bytes(out_ + (offset - first * element_size), sum, bytes);
      });
    } else {
      for (std::size_t b = 0; b < mine().buffers.size(); ++b) {
        const std::size_t count = mine().buffers[b].count;
        const int first = copied_ ? rank_ : 0;
        const int last = copied_ ? rank_ + 1 : size;
        fold(b, copied_ ? 0 : slice_begin(count, rank_), copied_ ? count : slice_begin(count, rank_ + 1),
             [&](const std::byte* sum, std::size_t offset, std::size_t bytes) {
               for (int r = first; r < last; ++r) copy_bytes(shown(r).buffers[b].home + offset, sum, bytes);
             });
      }
    }
  }

  /// Where rank r's slice of a buffer begins: slices are whole cache lines long, as even as that allows.
  std::size_t slice_begin(std::size_t count, int rank) noexcept {
    const std::size_t per_line = std::max<std::size_t>(1, 64 / mine().type.size);
    const std::size_t lines = (count + per_line - 1) / per_line;
    const std::size_t ranks = static_cast<std::size_t>(axis_.meetings.size());
    return std::min(count, lines * static_cast<std::size_t>(rank) / ranks * per_line);
  }

  /// Adds up elements [first, last) of buffer b over all ranks, in ascending rank, a tile at a time, so that the
  /// partial sums stay in the first-level cache. It starts with the term of rank 0: begun at zero, a sum of -0 is +0.
  template <class Deliver>
  void fold(std::size_t b, std::size_t first, std::size_t last, Deliver deliver) noexcept {
    alignas(64) std::array<std::byte, tile_bytes> sum;
    const element& type = mine().type;
    const std::size_t step = tile_bytes / type.size;
    for (std::size_t i = first; i < last; i += step) {
      const std::size_t count = std::min(step, last - i);
      const std::size_t offset = i * type.size;
      std::memcpy(sum.data(), shown(0).buffers[b].source + offset, count * type.size);
      for (int r = 1; r < axis_.meetings.size(); ++r) type.add(sum.data(), shown(r).buffers[b].source + offset, count);
      deliver(sum.data(), offset, count * type.size);
    }
  }

  const thread_options& options_;
  thread_axis& axis_;
  int rank_;
  std::uint64_t sequence_ = 0;  // of the last call begun
  std::uint64_t meeting_ = 0;   // the one to be awaited
  std::byte* out_ = nullptr;
  bool copied_ = true;
  bool combined_ = true;
};

}  // namespace swiglu::comm_detail

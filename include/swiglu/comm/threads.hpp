// SPDX-License-Identifier: MIT
#pragma once

// Ranks that are threads of one process. They share an address space, so nothing is sent: the ranks meet, and then each
// one reads its slice of everybody's buffers, adds it up in ascending rank and stores the sum to everybody. That reads
// every input byte once and writes every output byte once, 2n bytes of traffic per rank, with one meeting before and
// one after. Calls of a few kilobytes are copied to a board instead and summed by every rank for itself: one meeting.
//
// Every rank shows which call it makes, and after the first meeting, before any data moves, all of them compare. A rank
// that throws, leaves, stalls or calls something else frees all others, on both axes of a mesh, by the errors of
// communicator.hpp. So does the last rank at work when it comes to wait for others that all wait themselves.
//
// comm/launch.hpp starts the threads; thread_world, below, is for those who have threads already. Every rank needs one
// of its own: ranks that are tasks of a smaller pool wait for each other for ever.

#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/detail/call_guard.hpp>
#include <swiglu/comm/detail/thread_collective.hpp>
#include <swiglu/comm/thread_options.hpp>

namespace swiglu {

class thread_communicator;

/// An all_reduce that thread_communicator::iall_reduce has started. The communicator must outlive it.
/// There is no helper thread: this rank's part of the sum is computed in wait(), or in the test() that finds all ranks
/// arrived, and the peers need that part. Starting early hides that ranks arrive at different times, not the adding.
class [[nodiscard]] thread_request {
 public:
  thread_request(thread_request&& other) noexcept
      : communicator_(std::exchange(other.communicator_, nullptr)), exceptions_(other.exceptions_) {}
  thread_request& operator=(thread_request&& other) noexcept {
    if (this != &other) {
      settle();
      communicator_ = std::exchange(other.communicator_, nullptr);
      exceptions_ = other.exceptions_;
    }
    return *this;
  }

  /// Waits if that has not been done, and makes an abort of a failure, which must not pass unnoticed. While an
  /// exception unwinds the stack it aborts and does not wait for anybody to arrive.
  ~thread_request() { settle(); }

  /// Completes the sum; throws what all_reduce throws.
  void wait();

  /// Goes as far as is possible without waiting; throws what all_reduce throws, except that no deadline runs here.
  bool test();

 private:
  friend thread_communicator;
  explicit thread_request(thread_communicator* communicator) noexcept
      : communicator_(communicator), exceptions_(std::uncaught_exceptions()) {}

  bool resume(bool block);
  void settle() noexcept;

  thread_communicator* communicator_;  // null once it is complete or has failed
  int exceptions_;
};

/// One rank's end of an axis of thread ranks; satisfies every refinement. It belongs to one thread at a time: a call
/// made while another is in progress, or between a request and its wait(), throws std::logic_error. Only abort() may be
/// called from any thread. A rank that is waiting is taken to be at work all the same if its end of the other axis was
/// last used, or made, by another thread: who gives the two ends of a rank to two threads makes each in its own, or
/// else may be taken for deadlocked before the second one calls. Destroying it tells the peers that this rank has
/// departed; nothing is communicated. No call allocates, except that the first bundles of more than 16 buffers make
/// room for their like.
///
/// Every collective throws, besides the errors of communicator.hpp: std::invalid_argument for wrong sizes and for
/// buffers that overlap, on this rank or with another's.
class thread_communicator {
 public:
  static constexpr reduction_order order = reduction_order::rank_order;

  thread_communicator(const thread_communicator&) = delete;
  thread_communicator& operator=(const thread_communicator&) = delete;

  ~thread_communicator() {
    if (std::uncaught_exceptions() > exceptions_) abort(nullptr);
    axis_.meetings.depart(rank_);
    axis_.deadlocks.depart(axis_.seat(rank_));
  }

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return axis_.meetings.size(); }

  /// Sums a buffer, or every buffer of a bundle, in place. The ranks' names must be equal; a buffer without has an
  /// empty one.
  template <comm_detail::summable T>
  void all_reduce(std::span<T> buffer, std::string_view name = {}) {
    all_reduce(std::span<const std::span<T>>(&buffer, 1), std::span<const std::string_view>(&name, 1));
  }
  template <comm_detail::summable T>
  void all_reduce(std::span<const std::span<T>> buffers, std::span<const std::string_view> names = {}) {
    const session call(*this);
    begin(comm_detail::operation::all_reduce, buffers, names);
    collective_.advance(true);
  }

  /// Starts to sum a buffer, in place. Never waits.
  template <comm_detail::summable T>
  thread_request iall_reduce(std::span<T> buffer, std::string_view name = {}) {
    session call(*this);
    begin(comm_detail::operation::all_reduce, std::span<const std::span<T>>(&buffer, 1),
          std::span<const std::string_view>(&name, 1));
    if (size() == 1) return thread_request(nullptr);
    collective_.report(comm_detail::whereabouts::started);
    call.then = call_guard::started;
    return thread_request(this);
  }

  /// Leaves part rank() of the sum of `in` in `out`; in.size() == size() * out.size().
  template <comm_detail::summable T>
  void reduce_scatter(std::span<const T> in, std::span<T> out) {
    exchange(comm_detail::operation::reduce_scatter, in, out, in.size(), out.size());
  }

  /// Leaves the inputs of all ranks in `out`, in ascending rank; out.size() == size() * in.size().
  template <comm_detail::summable T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    exchange(comm_detail::operation::all_gather, in, out, out.size(), in.size());
  }

  /// Ends the communication of the whole mesh, on both axes, with `error` as the root cause (of several, the first).
  void abort(std::exception_ptr error) noexcept { axis_.errors.abort(std::move(error), axis_.member(rank_)); }

 private:
  friend class thread_request;
  friend class thread_world;

  thread_communicator(std::shared_ptr<comm_detail::thread_state> state, comm_detail::thread_axis& axis, int rank)
      : state_(std::move(state)),
        axis_(axis),
        rank_(rank),
        collective_(state_->options, axis, rank),
        exceptions_(std::uncaught_exceptions()) {
    if (!axis.meetings.join(rank))
      throw std::logic_error("swiglu::thread_world: a rank takes its communicator of an axis once");
    axis.seat(rank).use();
  }

  using call_guard = comm_detail::call_guard;

  // The time in which this object is used by a call.
  struct session : call_guard::session {
    explicit session(thread_communicator& c, call_guard::usage from = call_guard::idle)
        : call_guard::session(c.guard_, from) {
      c.axis_.seat(c.rank_).use();
    }
  };

  template <class T>
  void begin(comm_detail::operation op, std::span<const std::span<T>> buffers, std::span<const std::string_view> names,
             std::byte* out = nullptr) {
    if (!names.empty() && names.size() != buffers.size())
      throw std::invalid_argument("swiglu::thread_communicator: a bundle needs one name per buffer, or none");
    auto& shown = collective_.buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i)
      shown.push_back(comm_detail::show(reinterpret_cast<std::byte*>(buffers[i].data()), buffers[i].size(),
                                        names.empty() ? std::string_view{} : names[i]));
    collective_.begin(op, comm_detail::element_of<T>, out);
  }

  template <class T>
  void exchange(comm_detail::operation op, std::span<const T> in, std::span<T> out, std::size_t whole,
                std::size_t part) {
    if (whole != part * static_cast<std::size_t>(size()))
      throw std::invalid_argument("swiglu::thread_communicator: " + std::string(comm_detail::name_of(op)) +
                                  " needs a larger span of size() times the smaller");
    const auto* const in_bytes = reinterpret_cast<const std::byte*>(in.data());
    auto* const out_bytes = reinterpret_cast<std::byte*>(out.data());
    if (in_bytes < out_bytes + out.size_bytes() && out_bytes < in_bytes + in.size_bytes())
      throw std::invalid_argument("swiglu::thread_communicator: the spans of " + std::string(comm_detail::name_of(op)) +
                                  " overlap");
    const session call(*this);
    // The board shows mutable buffers; those of these two operations are only read.
    const std::span<T> shown(const_cast<T*>(in.data()), in.size());
    begin(op, std::span<const std::span<T>>(&shown, 1), {}, out_bytes);
    collective_.advance(true);
  }

  std::shared_ptr<comm_detail::thread_state> state_;
  comm_detail::thread_axis& axis_;
  int rank_;
  comm_detail::thread_collective collective_;
  call_guard guard_{"swiglu::thread_communicator"};
  int exceptions_;
};

inline bool thread_request::resume(bool block) {
  if (communicator_ == nullptr) return true;
  thread_communicator& c = *communicator_;
  thread_communicator::session call(c, comm_detail::call_guard::started);
  communicator_ = nullptr;  // the request is over, also if this throws, unless the call turns out to be pending
  if (block) c.collective_.report(comm_detail::whereabouts::waiting);
  if (c.collective_.advance(block)) return true;
  communicator_ = &c;
  call.then = comm_detail::call_guard::started;
  return false;
}

inline void thread_request::wait() { resume(true); }
inline bool thread_request::test() { return resume(false); }

inline void thread_request::settle() noexcept {
  if (communicator_ == nullptr) return;
  thread_communicator& c = *communicator_;
  if (std::uncaught_exceptions() > exceptions_) {
    c.abort(nullptr);
    c.collective_.retreat();
    c.guard_.leave(comm_detail::call_guard::idle);
    return;
  }
  try {
    wait();
  } catch (...) {
    c.abort(std::current_exception());
  }
}

/// What the threads of a mesh share. Each rank takes its communicators from it, once; they keep the shared state alive.
/// Thread-safe.
class thread_world {
 public:
  /// Ranks along a single axis, `data`.
  explicit thread_world(int size, thread_options options = {})
      : state_(std::make_shared<comm_detail::thread_state>(size, 0, std::move(options))) {}

  /// A mesh of data * tensor ranks, row-major.
  thread_world(int data, int tensor, thread_options options = {})
      : state_(std::make_shared<comm_detail::thread_state>(data, positive(tensor), std::move(options))) {}

  int size() const noexcept { return state_->size(); }

  /// The communicators of a rank of the mesh. Throws std::out_of_range, or std::logic_error the second time.
  thread_communicator data(int rank) const {
    const auto [d, t] = place(rank);
    return {state_, *state_->data_lines[t], static_cast<int>(d)};
  }
  thread_communicator tensor(int rank) const {
    const auto [d, t] = place(rank);
    return {state_, *state_->tensor_lines[d], static_cast<int>(t)};
  }

  /// Ends all communication; for a failure that is not a rank's.
  void abort(std::exception_ptr error) const noexcept {
    state_->errors.abort(std::move(error), comm_detail::abort_state::nobody);
  }

  /// The first error that ended it, or null.
  std::exception_ptr error() const { return state_->errors.cause(); }

 private:
  std::pair<std::size_t, std::size_t> place(int rank) const {
    if (rank < 0 || rank >= size()) throw std::out_of_range("swiglu::thread_world: there is no such rank");
    return {static_cast<std::size_t>(rank / state_->tensor_size), static_cast<std::size_t>(rank % state_->tensor_size)};
  }
  static int positive(int tensor) {
    if (tensor < 1) throw std::invalid_argument("swiglu: a mesh needs at least one rank along each axis");
    return tensor;
  }

  std::shared_ptr<comm_detail::thread_state> state_;
};

}  // namespace swiglu

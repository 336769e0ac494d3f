// SPDX-License-Identifier: MIT
#pragma once

// Ranks that are MPI processes; for any MPI from 3.1 on. Include it, or mpi_mesh.hpp, by name and link swiglu::mpi.
//
// MPI can neither wake a rank that waits nor go on after a failure: a rank that throws has to end the job, which is
// what mpi_session does. MPI does not compare calls either; swiglu::checked does. And it promises no order of
// additions; swiglu::rank_ordered has one.

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <swiglu/comm/collectives.hpp>
#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/detail/call_guard.hpp>
#include <swiglu/comm/detail/mpi_calls.hpp>
#include <swiglu/comm/detail/mpi_wait.hpp>
#include <swiglu/comm/mpi_session.hpp>

namespace swiglu {

/// The same on all ranks.
struct mpi_options {
  /// The most elements in one MPI call, whose count is an int; a larger sum is made in parts.
  std::size_t most_elements = std::size_t{1} << 30;

  /// The longest that a rank waits in one call before it throws collective_timeout (at most twice as long, because it
  /// then asks around who is missing). Sums are copied while they travel if this is set: MPI has no way to call back
  /// what may still arrive. Without it a rank waits for ever.
  std::optional<std::chrono::nanoseconds> timeout = {};
};

class mpi_communicator;

/// A sum that mpi_communicator::iall_reduce has started. The communicator must outlive it. Most MPI libraries move
/// little between the start and wait() unless test() is called now and then.
class [[nodiscard]] mpi_request {
 public:
  mpi_request(mpi_request&& other) noexcept
      : communicator_(std::exchange(other.communicator_, nullptr)), exceptions_(other.exceptions_) {}
  mpi_request& operator=(mpi_request&& other) noexcept {
    if (this != &other) {
      settle();
      communicator_ = std::exchange(other.communicator_, nullptr);
      exceptions_ = other.exceptions_;
    }
    return *this;
  }
  /// Waits if that has not been done. While an exception unwinds the stack, or if waiting fails, it aborts the job:
  /// what was started would write into a buffer that dies.
  ~mpi_request() { settle(); }

  void wait() { resume(true); }
  bool test() { return resume(false); }

 private:
  friend mpi_communicator;
  explicit mpi_request(mpi_communicator* communicator) noexcept
      : communicator_(communicator), exceptions_(std::uncaught_exceptions()) {}

  bool resume(bool block);
  void settle() noexcept;

  mpi_communicator* communicator_;  // null once it is complete or has failed
  int exceptions_;
};

/// One rank of a communicator of its own, a duplicate or a part of the one it is made from. Making one is collective
/// over the parent: all ranks do it, in the same order. Elements: floating-point and integral types.
///
/// Errors are exceptions: mpi_error, collective_timeout, communicator_aborted for any call after a failure;
/// std::logic_error where MPI may not be called (it does not run; it was started without threads, or for the main
/// thread only and this is another), for a second call during a first; std::invalid_argument for wrong sizes. The order
/// of the additions is MPI's affair, and so is that all ranks hold the same bits, which MPI only recommends: the
/// libraries of today do it, and check_communicator looks.
///
/// Destroying it frees it on all ranks, which the standard allows to wait for the others: not after a failure, nor
/// while an exception unwinds, nor when MPI is over; MPI_Finalize then does.
class mpi_communicator {
 public:
  explicit mpi_communicator(MPI_Comm parent, mpi_options options = {})
      : mpi_communicator(options,
                         [parent](MPI_Comm* own) { comm_detail::mpi(MPI_Comm_dup(parent, own), "MPI_Comm_dup"); }) {}

  /// The ranks of `parent` that pass the same color, in ascending order of their keys.
  mpi_communicator(MPI_Comm parent, int color, int key, mpi_options options = {})
      : mpi_communicator(options, [=](MPI_Comm* own) {
          comm_detail::mpi(MPI_Comm_split(parent, color, key, own), "MPI_Comm_split");
        }) {}

  mpi_communicator(const mpi_communicator&) = delete;
  mpi_communicator& operator=(const mpi_communicator&) = delete;
  ~mpi_communicator() {
    if (!failure_ && std::uncaught_exceptions() <= exceptions_ && comm_detail::mpi_runs()) MPI_Comm_free(&comm_);
  }

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  template <comm_detail::mpi_element T>
  void all_reduce(std::span<T> buffer) {
    const call_guard::session session(guard_);
    run([&] {
      if (size_ == 1) return;
      if (polls_ || buffer.empty()) {
        start(buffer);
        finish(true);
      } else {
        each_part(buffer.size(), [&](std::size_t first, int count) {
          comm_detail::mpi(
              MPI_Allreduce(MPI_IN_PLACE, buffer.data() + first, count, comm_detail::mpi_type<T>(), MPI_SUM, comm_),
              "MPI_Allreduce");
        });
      }
    });
  }

  /// Starts to sum a buffer, in place. Never waits.
  template <comm_detail::mpi_element T>
  mpi_request iall_reduce(std::span<T> buffer) {
    call_guard::session session(guard_);
    if (size_ == 1) return mpi_request(nullptr);
    run([&] { start(buffer); });
    session.then = call_guard::started;
    return mpi_request(this);
  }

  /// Leaves part rank() of the sum of `in` in `out`; in.size() == size() * out.size(). Has no deadline, nor has
  /// all_gather.
  template <comm_detail::mpi_element T>
  void reduce_scatter(std::span<const T> in, std::span<T> out) {
    const call_guard::session session(guard_);
    require_sizes(in.size(), out.size());
    run([&] {
      const MPI_Datatype type = comm_detail::mpi_type<T>();
      expect(out.size(), static_cast<std::size_t>(size_));
      if (out.empty()) {
        start_barrier();
      } else if (in.size() <= options_.most_elements) {
        const int count = static_cast<int>(out.size());
        comm_detail::mpi(MPI_Ireduce_scatter_block(in.data(), out.data(), count, type, MPI_SUM, comm_, one_more()),
                         "MPI_Ireduce_scatter_block");
      } else {
        for (int r = 0; r < size_; ++r)
          each_part(out.size(), [&](std::size_t first, int count) {
            const T* const from = in.data() + static_cast<std::size_t>(r) * out.size() + first;
            comm_detail::mpi(MPI_Ireduce(from, out.data() + first, count, type, MPI_SUM, r, comm_, one_more()),
                             "MPI_Ireduce");
          });
      }
      (void)complete(true, {});
    });
  }

  /// Leaves the inputs of all ranks in `out`, in ascending rank; out.size() == size() * in.size().
  template <comm_detail::mpi_element T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    const call_guard::session session(guard_);
    require_sizes(out.size(), in.size());
    run([&] {
      const MPI_Datatype type = comm_detail::mpi_type<T>();
      expect(in.size(), static_cast<std::size_t>(size_));
      if (in.empty()) {
        start_barrier();
      } else if (out.size() <= options_.most_elements) {
        const int count = static_cast<int>(in.size());
        comm_detail::mpi(MPI_Iallgather(in.data(), count, type, out.data(), count, type, comm_, one_more()),
                         "MPI_Iallgather");
      } else {
        std::ranges::copy(in, out.begin() + static_cast<std::ptrdiff_t>(in.size()) * rank_);
        for (int r = 0; r < size_; ++r)
          each_part(in.size(), [&](std::size_t first, int count) {
            T* const part = out.data() + static_cast<std::size_t>(r) * in.size() + first;
            comm_detail::mpi(MPI_Ibcast(part, count, type, r, comm_, one_more()), "MPI_Ibcast");
          });
      }
      (void)complete(true, {});
    });
  }

  /// Ends the job, all processes of it, after a line on stderr that says why: the only way that MPI has to free a peer.
  void abort(std::exception_ptr error) noexcept { comm_detail::abort_job(error); }

 private:
  friend mpi_request;
  using call_guard = comm_detail::call_guard;

  template <class Make>
  mpi_communicator(const mpi_options& options, Make make) : options_(options), exceptions_(std::uncaught_exceptions()) {
    comm_detail::require_size(options.most_elements > 0 && options.most_elements <= std::numeric_limits<int>::max(),
                              "swiglu::mpi_communicator: most_elements has to be from 1 to INT_MAX");
    comm_detail::require_mpi_here();
    make(&comm_);
    comm_detail::mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    comm_detail::mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    comm_detail::mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    polls_ = options.timeout || comm_detail::crowded(comm_);
  }

  void require_sizes(std::size_t whole, std::size_t part) const {
    comm_detail::require_size(
        whole == part * static_cast<std::size_t>(size_),
        "swiglu::mpi_communicator: the larger span has to be size() times as long as the smaller");
  }

  /// Makes a part of a call; any failure in it is the last thing that happens here.
  template <class Part>
  void run(Part part) {
    if (failure_) throw communicator_aborted("swiglu::mpi_communicator: an earlier call failed", failure_);
    comm_detail::require_mpi_here();
    try {
      part();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

  template <class F>
  void each_part(std::size_t count, F f) const {
    for (std::size_t first = 0; first < count; first += options_.most_elements)
      f(first, static_cast<int>(std::min(options_.most_elements, count - first)));
  }

  template <class T>
  void start(std::span<T> buffer) {
    ++sequence_;
    expect(buffer.size(), 1);
    T* data = buffer.data();
    if (options_.timeout) {
      travelling_ = std::make_unique<std::byte[]>(std::max<std::size_t>(buffer.size_bytes(), 1));
      home_ = std::as_writable_bytes(buffer);
      if (!buffer.empty()) std::memcpy(travelling_.get(), buffer.data(), buffer.size_bytes());
      data = reinterpret_cast<T*>(travelling_.get());
    }
    if (buffer.empty()) start_barrier();
    each_part(buffer.size(), [&](std::size_t first, int count) {
      comm_detail::mpi(
          MPI_Iallreduce(MPI_IN_PLACE, data + first, count, comm_detail::mpi_type<T>(), MPI_SUM, comm_, one_more()),
          "MPI_Iallreduce");
    });
  }

  /// Room for the requests of a call before the first is started: nothing may be thrown while MPI uses the buffers.
  void expect(std::size_t count, std::size_t calls_per_part) {
    pending_.clear();
    pending_.reserve((count / options_.most_elements + 1) * calls_per_part);
  }
  MPI_Request* one_more() { return &pending_.emplace_back(MPI_REQUEST_NULL); }

  /// An MPI collective of nothing need not wait for anybody.
  void start_barrier() { comm_detail::mpi(MPI_Ibarrier(comm_, one_more()), "MPI_Ibarrier"); }

  /// Whether what is pending is complete, now or within the time.
  bool complete(bool block, const std::optional<std::chrono::nanoseconds>& time) {
    const int count = static_cast<int>(pending_.size());
    const auto all = [&] {
      int done = 0;
      comm_detail::mpi(MPI_Testall(count, pending_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
      return done != 0;
    };
    if (!block) return all();
    if (polls_) return comm_detail::holds_within(time, all);
    comm_detail::mpi(MPI_Waitall(count, pending_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    return true;
  }

  /// Returns whether the sum that was started is complete.
  bool finish(bool block) {
    if (!complete(block, options_.timeout)) {
      if (!block) return false;
      (void)travelling_.release();  // MPI may write to it as long as the process lives
      const std::string missing = comm_detail::missing_ranks(comm_, sequence_, *options_.timeout);
      throw collective_timeout("swiglu::mpi_communicator: rank " + std::to_string(rank_) +
                               " has waited too long in call #" + std::to_string(sequence_) + "; missing: " + missing);
    }
    if (travelling_ && !home_.empty()) std::memcpy(home_.data(), travelling_.get(), home_.size());
    travelling_.reset();
    return true;
  }

  mpi_options options_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  bool polls_ = false;  // looks whether a call is complete, instead of leaving the waiting to MPI; on all ranks or none
  std::uint64_t sequence_ = 0;  // of what was started
  std::vector<MPI_Request> pending_;
  std::unique_ptr<std::byte[]> travelling_;  // a copy of home_
  std::span<std::byte> home_;
  call_guard guard_{"swiglu::mpi_communicator"};
  std::exception_ptr failure_;
  int exceptions_;
};

inline bool mpi_request::resume(bool block) {
  if (communicator_ == nullptr) return true;
  mpi_communicator& c = *communicator_;
  comm_detail::call_guard::session session(c.guard_, comm_detail::call_guard::started);
  communicator_ = nullptr;  // the request is over, also if this throws, unless it turns out to be pending
  bool complete = false;
  c.run([&] { complete = c.finish(block); });
  if (complete) return true;
  communicator_ = &c;
  session.then = comm_detail::call_guard::started;
  return false;
}

inline void mpi_request::settle() noexcept {
  if (communicator_ == nullptr) return;
  mpi_communicator& c = *communicator_;
  if (std::uncaught_exceptions() > exceptions_) c.abort(nullptr);
  try {
    wait();
  } catch (...) {
    c.abort(std::current_exception());
  }
}

}  // namespace swiglu

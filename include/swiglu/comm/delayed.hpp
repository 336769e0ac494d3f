// SPDX-License-Identifier: MIT
#pragma once

// Any communicator behind a simulated link: to see on one machine what a network would do to a program, and what it can
// hide behind its work.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <swiglu/comm/collectives.hpp>
#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/detail/call_guard.hpp>
#include <swiglu/comm/detail/shown_call.hpp>

namespace swiglu {

/// What a collective costs once all ranks have called it. (A ring over p ranks passes about 2 n bytes on, in 2 (p - 1)
/// steps: whoever means one gives the latency of all steps together and half the bandwidth.)
struct link_speed {
  std::chrono::nanoseconds latency{0};
  double bytes_per_second = std::numeric_limits<double>::infinity();

  /// The time that `bytes` take. Throws std::invalid_argument if the bandwidth or the latency is no cost.
  std::chrono::nanoseconds time(std::size_t bytes) const {
    if (!(bytes_per_second > 0) || latency.count() < 0)
      throw std::invalid_argument("swiglu::link_speed: the bandwidth has to be above 0, the latency at least 0");
    const double seconds = static_cast<double>(bytes) / bytes_per_second;
    return latency + std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  }
};

namespace comm_detail {

/// A thread that runs one call at a time, as a network card would: started at once, waited for later.
class courier {
 public:
  using clock = std::chrono::steady_clock;

  courier() = default;
  courier(const courier&) = delete;
  courier& operator=(const courier&) = delete;
  ~courier() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  /// Runs `call`, and then lets `time` pass.
  void start(std::function<void()> call, std::chrono::nanoseconds time) {
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    {
      const std::lock_guard lock(mutex_);
      call_ = std::move(call);
      time_ = time;
      error_ = nullptr;
      arrival_.reset();
    }
    changed_.notify_all();
  }
  /// Until the call is over and its time has passed; throws what the call threw, without that delay.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return arrival_.has_value(); });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    const clock::time_point arrival = *arrival_;
    lock.unlock();
    std::this_thread::sleep_until(arrival);
  }
  bool test() {
    const std::lock_guard lock(mutex_);
    if (!arrival_) return false;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return clock::now() >= *arrival_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return over_ || call_; });
      if (!call_) return;
      const std::function<void()> call = std::exchange(call_, nullptr);
      lock.unlock();
      std::exception_ptr error;
      try {
        call();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = std::move(error);
      arrival_ = clock::now() + (error_ ? std::chrono::nanoseconds(0) : time_);
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> call_;
  std::chrono::nanoseconds time_{0};
  std::exception_ptr error_;
  std::optional<clock::time_point> arrival_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace comm_detail

template <class C>
class delayed;

/// A sum that delayed::iall_reduce has started. The communicator must outlive it.
template <class C>
class [[nodiscard]] delayed_request {
 public:
  delayed_request(delayed_request&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), exceptions_(other.exceptions_) {}
  delayed_request& operator=(delayed_request&& other) noexcept {
    if (this != &other) {
      settle();
      owner_ = std::exchange(other.owner_, nullptr);
      exceptions_ = other.exceptions_;
    }
    return *this;
  }
  /// Waits if that has not been done; while an exception unwinds the stack it aborts, which ends the transfer.
  ~delayed_request() { settle(); }

  /// Throws what the sum threw.
  void wait() {
    if (owner_ == nullptr) return;
    delayed<C>& owner = *std::exchange(owner_, nullptr);
    const typename delayed<C>::finishing session(owner);
    owner.courier_.wait();
  }
  bool test() {
    if (owner_ == nullptr) return true;
    delayed<C>& owner = *owner_;
    typename delayed<C>::finishing session(owner);
    owner_ = nullptr;  // over, also if this throws, unless it turns out to be on its way
    if (owner.courier_.test()) return true;
    owner_ = &owner;
    session.then = comm_detail::call_guard::started;
    return false;
  }

 private:
  friend delayed<C>;
  explicit delayed_request(delayed<C>* owner) noexcept : owner_(owner), exceptions_(std::uncaught_exceptions()) {}

  void settle() noexcept {
    if (owner_ == nullptr) return;
    delayed<C>& owner = *owner_;
    if (std::uncaught_exceptions() > exceptions_) owner.communicator_.abort(nullptr);
    try {
      wait();
    } catch (...) {
      owner.communicator_.abort(std::current_exception());
    }
  }

  delayed<C>* owner_;  // null once it is complete or has failed
  int exceptions_;
};

/// Refers to a communicator of one rank and does not own it. Every call takes the time of the link longer: from the
/// moment that all ranks have made it, as far as C lets that be seen, and not a processor's time. It has the
/// refinements of C; and iall_reduce, whether C has it or not, if C can be aborted: the sum is made by a thread of its
/// own while this one does something else, and the request is complete when the link would have delivered it. (An MPI
/// has to have been started with MPI_THREAD_SERIALIZED for that.)
///
/// Errors are those of C; std::invalid_argument for a link that is none. One call at a time, else std::logic_error.
template <class C>
class delayed {
 public:
  static constexpr reduction_order order = reduction_order_v<C>;

  delayed(C& communicator, link_speed link) : communicator_(communicator), link_(link) { (void)link.time(0); }
  delayed(const delayed&) = delete;
  delayed& operator=(const delayed&) = delete;

  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  template <comm_detail::summable T>
    requires communicator<C, T>
  void all_reduce(std::span<T> buffer) {
    travel(buffer.size_bytes(), [&] { communicator_.all_reduce(buffer); });
  }
  /// A bundle costs the latency once.
  template <comm_detail::summable T>
    requires communicator<C, T>
  void all_reduce(std::span<const std::span<T>> buffers) {
    travel(bytes_of(buffers), [&] { swiglu::all_reduce<T>(communicator_, buffers); });
  }
  template <comm_detail::summable T>
    requires tagged_communicator<C, T>
  void all_reduce(std::span<const std::span<T>> buffers, std::span<const std::string_view> names) {
    travel(bytes_of(buffers), [&] { swiglu::all_reduce<T>(communicator_, buffers, names); });
  }

  /// Starts to sum a buffer, in place. Never waits. The first call starts a thread.
  template <comm_detail::summable T>
    requires communicator<C, T> && abortable_communicator<C> delayed_request<C> iall_reduce(
        std::span<T> buffer, std::string_view name = {}) {
      call_guard::session session(guard_);
      if (size() == 1) return delayed_request<C>(nullptr);
      const auto sum = [this, buffer, copy = std::string(name)] {
        const std::string_view same = copy;
        swiglu::all_reduce<T>(communicator_, std::span<const std::span<T>>(&buffer, 1),
                              std::span<const std::string_view>(&same, 1));
      };
      courier_.start(sum, link_.time(buffer.size_bytes()));
      session.then = call_guard::started;
      return delayed_request<C>(this);
    }

  template <comm_detail::summable T>
    requires scatter_gather_communicator<C, T>
  void reduce_scatter(std::span<const T> in, std::span<T> out) {
    travel(in.size_bytes(), [&] { communicator_.reduce_scatter(in, out); });
  }
  template <comm_detail::summable T>
    requires scatter_gather_communicator<C, T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    travel(out.size_bytes(), [&] { communicator_.all_gather(in, out); });
  }

  void abort(std::exception_ptr error) noexcept requires abortable_communicator<C> {
    communicator_.abort(std::move(error));
  }

 private:
  friend delayed_request<C>;
  using call_guard = comm_detail::call_guard;
  struct finishing : call_guard::session {
    explicit finishing(delayed& owner) : call_guard::session(owner.guard_, call_guard::started) {}
  };

  template <class T>
  static std::size_t bytes_of(std::span<const std::span<T>> buffers) {
    std::size_t bytes = 0;
    for (const std::span<T> buffer : buffers) bytes += buffer.size_bytes();
    return bytes;
  }

  template <class Call>
  void travel(std::size_t bytes, Call call) {
    const call_guard::session session(guard_);
    call();
    if (size() > 1) std::this_thread::sleep_until(std::chrono::steady_clock::now() + link_.time(bytes));
  }

  C& communicator_;
  link_speed link_;
  call_guard guard_{"swiglu::delayed"};
  comm_detail::courier courier_;  // last: its thread uses the others
};

}  // namespace swiglu

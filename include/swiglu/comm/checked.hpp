// SPDX-License-Identifier: MIT
#pragma once

// Any communicator, and with it the check that threads make of themselves: before anything moves, the ranks compare
// which operation they call, on how many elements of which type in each buffer, and the buffers' names. If one differs,
// all of them throw the same collective_mismatch, with every buffer as it was, and can go on together.

#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <swiglu/comm/collectives.hpp>
#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/detail/call_guard.hpp>
#include <swiglu/comm/detail/call_words.hpp>

namespace swiglu {

template <class C, class Carrier>
class checked;

/// A sum that checked::iall_reduce has started: first the calls are compared, then the sum travels, and it is wait(),
/// or the test() that finds the comparison done, which sends it off. So nothing of the sum itself hides behind work
/// that is done before the first test(). The communicator must outlive it.
template <class C, class Carrier, class T>
class [[nodiscard]] checked_request {
 public:
  checked_request(checked_request&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        comparing_(std::move(other.comparing_)),
        adding_(std::move(other.adding_)),
        buffer_(other.buffer_),
        exceptions_(other.exceptions_) {}
  checked_request& operator=(checked_request&& other) noexcept {
    if (this != &other) {
      settle();
      owner_ = std::exchange(other.owner_, nullptr);
      comparing_ = std::move(other.comparing_);
      adding_ = std::move(other.adding_);
      buffer_ = other.buffer_;
      exceptions_ = other.exceptions_;
    }
    return *this;
  }
  /// Waits if that has not been done; while an exception unwinds the stack it does not, but leaves what was started to
  /// the requests of C, and the communicator unusable.
  ~checked_request() { settle(); }

  /// Throws what all_reduce throws.
  void wait() { resume(true); }
  bool test() { return resume(false); }

 private:
  friend checked<C, Carrier>;
  using words_request = decltype(std::declval<C&>().iall_reduce(std::declval<std::span<Carrier>>()));
  using data_request = decltype(std::declval<C&>().iall_reduce(std::declval<std::span<T>>()));

  checked_request(checked<C, Carrier>* owner, std::span<T> buffer) noexcept
      : owner_(owner), buffer_(buffer), exceptions_(std::uncaught_exceptions()) {}

  bool resume(bool block);
  void settle() noexcept;

  checked<C, Carrier>* owner_;  // null once it is complete or has failed
  std::optional<words_request> comparing_;
  std::optional<data_request> adding_;
  std::span<T> buffer_;
  int exceptions_;
};

/// Refers to a communicator of one rank and does not own it; on all ranks of it, all calls have to go through a
/// checked. Adds names, bundles and the check to the three basic members; has the refinements that C has. A call costs
/// one more all_reduce, of 33 * size() elements of `Carrier`, a type in which C adds and which holds 65535 exactly.
/// With one rank nothing is compared.
///
/// Errors: collective_mismatch; std::invalid_argument for wrong sizes and for buffers of one call that overlap,
/// std::logic_error for a call during another one, both before any rank is met; what C throws, after which every later
/// call throws communicator_aborted at once. It belongs to one thread at a time. Allocates when it is made, and for the
/// first bundles of their length.
template <class C, class Carrier = std::conditional_t<communicator<C, float>, float, double>>
class checked {
  static_assert(communicator<C, Carrier>, "swiglu::checked: the communicator has to add the carrier type");

 public:
  static constexpr reduction_order order = reduction_order_v<C>;

  explicit checked(C& communicator) : communicator_(communicator), exchange_(communicator.size()) {
    call_.buffers.reserve(16);
  }
  checked(const checked&) = delete;
  checked& operator=(const checked&) = delete;

  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  /// Sums a buffer, or every buffer of a bundle, in place. A buffer without a name has an empty one.
  template <comm_detail::summable T>
    requires communicator<C, T>
  void all_reduce(std::span<T> buffer, std::string_view name = {}) {
    const call_guard::session session(guard_);
    show_call(comm_detail::operation::all_reduce, std::span<const std::span<T>>(&buffer, 1),
              std::span<const std::string_view>(&name, 1));
    watch([&] {
      compare();
      communicator_.all_reduce(buffer);
    });
  }
  template <comm_detail::summable T>
    requires communicator<C, T>
  void all_reduce(std::span<const std::span<T>> buffers, std::span<const std::string_view> names = {}) {
    const call_guard::session session(guard_);
    show_call(comm_detail::operation::all_reduce, buffers, names);
    watch([&] {
      compare();
      swiglu::all_reduce<T>(communicator_, buffers);
    });
  }

  /// Starts to sum a buffer, in place. Never waits.
  template <comm_detail::summable T>
    requires nonblocking_communicator<C, T> && nonblocking_communicator<C, Carrier> checked_request<C, Carrier, T>
    iall_reduce(std::span<T> buffer, std::string_view name = {}) {
      call_guard::session session(guard_);
      show_call(comm_detail::operation::all_reduce, std::span<const std::span<T>>(&buffer, 1),
                std::span<const std::string_view>(&name, 1));
      checked_request<C, Carrier, T> request(this, buffer);
      watch([&] {
        if (size() == 1)
          request.adding_.emplace(communicator_.iall_reduce(buffer));
        else
          request.comparing_.emplace(communicator_.iall_reduce(exchange_.message(call_, rank())));
      });
      session.then = call_guard::started;
      return request;
    }

  /// Leaves part rank() of the sum of `in` in `out`; in.size() == size() * out.size().
  template <comm_detail::summable T>
    requires scatter_gather_communicator<C, T>
  void reduce_scatter(std::span<const T> in, std::span<T> out) {
    exchange(comm_detail::operation::reduce_scatter, in, in.size(), out.size(),
             [&] { communicator_.reduce_scatter(in, out); });
  }

  /// Leaves the inputs of all ranks in `out`, in ascending rank; out.size() == size() * in.size().
  template <comm_detail::summable T>
    requires scatter_gather_communicator<C, T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    exchange(comm_detail::operation::all_gather, in, out.size(), in.size(), [&] { communicator_.all_gather(in, out); });
  }

  void abort(std::exception_ptr error) noexcept requires abortable_communicator<C> {
    communicator_.abort(std::move(error));
  }

 private:
  template <class, class, class>
  friend class checked_request;
  using call_guard = comm_detail::call_guard;

  template <class T>
  void show_call(comm_detail::operation op, std::span<const std::span<T>> buffers,
                 std::span<const std::string_view> names) {
    comm_detail::require_size(names.empty() || names.size() == buffers.size(),
                              "swiglu::checked: a bundle needs one name per buffer, or none");
    if (failure_)
      throw communicator_aborted("swiglu::checked: " + std::string(name_of(op)) + " refused: an earlier call failed",
                                 failure_);
    call_.op = op;
    call_.type = comm_detail::element_of<T>;
    call_.buffers.clear();
    for (std::size_t i = 0; i < buffers.size(); ++i)
      call_.buffers.push_back(comm_detail::show(reinterpret_cast<std::byte*>(buffers[i].data()), buffers[i].size(),
                                                names.empty() ? std::string_view{} : names[i]));
    if (shares_memory(call_, call_))
      throw std::invalid_argument("swiglu::checked: the buffers of one " + std::string(name_of(op)) + " overlap");
    ++call_.sequence;
    call_.seal();
  }

  void compare() {
    if (size() == 1) return;
    communicator_.all_reduce(exchange_.message(call_, rank()));
    finish_comparison();
  }
  void finish_comparison() {
    exchange_.compare(call_, rank(), [&](std::span<Carrier> words) { communicator_.all_reduce(words); });
  }

  template <class T, class Call>
  void exchange(comm_detail::operation op, std::span<const T> in, std::size_t whole, std::size_t part, Call call) {
    comm_detail::require_size(whole == part * static_cast<std::size_t>(size()),
                              "swiglu::checked: the larger span has to be size() times as long as the smaller");
    const call_guard::session session(guard_);
    const std::span<T> shown(const_cast<T*>(in.data()), in.size());  // is only looked at
    show_call(op, std::span<const std::span<T>>(&shown, 1), {});
    watch([&] {
      compare();
      call();
    });
  }

  /// Runs a part of a call; any failure but a mismatch is the last thing that happens here.
  template <class Part>
  void watch(Part part) {
    try {
      part();
    } catch (const collective_mismatch&) {
      throw;
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

  C& communicator_;
  comm_detail::shown_call call_;
  comm_detail::call_exchange<Carrier> exchange_;
  call_guard guard_{"swiglu::checked"};
  std::exception_ptr failure_;
};

template <class C, class Carrier, class T>
bool checked_request<C, Carrier, T>::resume(bool block) {
  if (owner_ == nullptr) return true;
  checked<C, Carrier>& owner = *owner_;
  comm_detail::call_guard::session session(owner.guard_, comm_detail::call_guard::started);
  owner_ = nullptr;  // the request is over, also if this throws, unless it turns out to be pending
  bool complete = false;
  owner.watch([&] {
    if (comparing_) {
      if (block)
        comparing_->wait();
      else if (!comparing_->test())
        return;
      comparing_.reset();
      owner.finish_comparison();
      adding_.emplace(owner.communicator_.iall_reduce(buffer_));
    }
    if (block)
      adding_->wait();
    else if (!adding_->test())
      return;
    adding_.reset();
    complete = true;
  });
  if (complete) return true;
  owner_ = &owner;
  session.then = comm_detail::call_guard::started;
  return false;
}

template <class C, class Carrier, class T>
void checked_request<C, Carrier, T>::settle() noexcept {
  if (owner_ == nullptr) return;
  checked<C, Carrier>& owner = *owner_;
  if (std::uncaught_exceptions() > exceptions_) {
    owner_ = nullptr;
    comparing_.reset();
    adding_.reset();
    owner.failure_ = std::make_exception_ptr(communicator_error("a request was dropped while an exception unwound"));
    owner.guard_.leave(comm_detail::call_guard::idle);
    return;
  }
  try {
    wait();
  } catch (...) {  // must not pass unnoticed
    owner.failure_ = std::current_exception();
    abort_peers(owner.communicator_, owner.failure_);
  }
}

}  // namespace swiglu

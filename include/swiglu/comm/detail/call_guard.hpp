// SPDX-License-Identifier: MIT
#pragma once

// One call at a time: a communicator that is entered by a second thread, or between a request and its wait(), says so
// instead of mixing two collectives.

#include <atomic>
#include <stdexcept>
#include <string>
#include <string_view>

namespace swiglu::comm_detail {

class call_guard {
 public:
  enum usage : int { idle, inside, started };

  /// `owner`: the communicator, for the message; a literal.
  explicit call_guard(std::string_view owner) noexcept : owner_(owner) {}

  /// Throws std::logic_error unless the communicator is in the state `from`.
  void enter(usage from) {
    int seen = from;
    if (!usage_.compare_exchange_strong(seen, inside))
      throw std::logic_error(std::string(owner_) + (seen == started ? ": called before a request's wait()"
                                                                    : ": entered by two threads at once"));
  }
  void leave(usage to) noexcept { usage_.store(to); }

  /// The time in which the communicator is used by a call.
  class session {
   public:
    explicit session(call_guard& guard, usage from = idle) : then(idle), guard_(guard) { guard.enter(from); }
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    ~session() { guard_.leave(then); }

    usage then;

   private:
    call_guard& guard_;
  };

 private:
  std::string_view owner_;
  std::atomic<int> usage_{idle};
};

}  // namespace swiglu::comm_detail

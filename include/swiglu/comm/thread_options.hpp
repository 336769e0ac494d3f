// SPDX-License-Identifier: MIT
#pragma once

// How the thread ranks of comm/threads.hpp and comm/launch.hpp wait for each other.

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <string_view>

namespace swiglu {

/// The same for all ranks of a mesh. The defaults wait for as long as any rank is at work: a peer that computes for a
/// long time is no failure. When none is, because every rank waits for another or has left, all are thrown out at once.
struct thread_options {
  /// The longest that a rank waits in one call before it throws collective_timeout.
  std::optional<std::chrono::nanoseconds> timeout = {};

  /// After so long, `warn` is called, once per wait, with a report of who is missing and where they are. It runs on the
  /// thread of the waiting rank, possibly on several at once. An exception from it is an error of that rank.
  std::optional<std::chrono::nanoseconds> warn_after = {};
  std::function<void(std::string_view report)> warn = {};

  /// A request to stop aborts the mesh with collective_cancelled.
  std::stop_token stop = {};

  /// A call of at most so many bytes is copied to a board and summed by every rank, with one synchronisation; a larger
  /// one is summed where it lies, a slice by each rank, with two. The bits are the same.
  std::size_t copy_limit = 16 * 1024;
};

}  // namespace swiglu

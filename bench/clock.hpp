// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <ctime>

namespace bench {

/// Seconds of a clock that never goes back.
inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
/// Seconds for which the calling thread had a core.
inline double thread_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }
/// Seconds for which the threads of this process had a core, added up.
inline double process_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace bench

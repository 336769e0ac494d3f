// SPDX-License-Identifier: MIT
#pragma once

#include <swiglu/config.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

enum class access { read, write };

/// Asks for the cache line at p, in L2. Never faults: p may point anywhere.
template <access Access>
[[gnu::always_inline]] inline void prefetch(const void* p) {
  __builtin_prefetch(p, Access == access::write ? 1 : 0, 2);
  asm volatile("");  // g++ takes a function that does nothing but prefetch for one without effect, and drops its calls
}

}  // namespace SWIGLU_ABI
}  // namespace swiglu

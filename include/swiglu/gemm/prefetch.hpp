// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>

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

/// Cache lines that somebody will need soon. A micro-kernel asks for them little by little while it computes: a burst
/// of requests would make its own loads wait for the same few buffers of the core. `at_once`: a burst all the same,
/// where the kernel is too short to share it out.
class prefetch_list {
 public:
  explicit prefetch_list(bool at_once) : at_once_(at_once) {}
  void clear() { size_ = 0; }
  /// Lines behind the last one that there is room for are forgotten.
  [[gnu::always_inline]] void add(const void* p) {
    if (at_once_)
      prefetch<access::read>(p);
    else if (size_ < line_.size())
      line_[size_++] = p;
  }
  const void* const* begin() const { return line_.data(); }
  std::size_t size() const { return size_; }

 private:
  bool at_once_;
  std::size_t size_ = 0;
  std::array<const void*, 256> line_;
};

}  // namespace SWIGLU_ABI
}  // namespace swiglu

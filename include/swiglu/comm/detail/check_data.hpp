// SPDX-License-Identifier: MIT
#pragma once

// What check_communicator sends: values that every rank can compute for every other rank, and buffers between guards.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace swiglu::comm_detail {

/// Small whole numbers: every sum is exact, so that the order of the additions does not show.
template <class T>
T whole(int rank, std::size_t i) {
  return static_cast<T>((static_cast<std::size_t>(rank) * 7 + i * 3 + i / 11) % 13);
}

/// Numbers of different magnitude and sign, so that it does. Every 16th is -0 on all ranks, which shows a sum begun at
/// +0.
template <class T>
T rough(int rank, std::size_t i) {
  if constexpr (std::is_floating_point_v<T>) {
    if (i % 16 == 5) return static_cast<T>(-0.0);
    std::uint64_t bits = (static_cast<std::uint64_t>(rank) << 40) + i + 1;
    bits = (bits ^ bits >> 29) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ bits >> 32) * 0x94d049bb133111ebU;
    const double magnitude = static_cast<double>(bits >> 12 & 0xfffffU) / 1048576.0 + 0.5;
    return static_cast<T>(std::ldexp(bits >> 63 != 0 ? -magnitude : magnitude, static_cast<int>(bits >> 4 & 15U)));
  } else {
    return whole<T>(rank, i);
  }
}

/// ((value(0, i) + value(1, i)) + value(2, i)) + ...
template <class T>
T ascending_fold(T (*value)(int, std::size_t), int ranks, std::size_t i) {
  T sum = value(0, i);
  for (int r = 1; r < ranks; ++r) sum = static_cast<T>(sum + value(r, i));
  return sum;
}

template <class T>
bool same_bytes(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// A buffer between two guards, one element off every alignment.
template <class T>
class guarded_buffer {
 public:
  explicit guarded_buffer(std::size_t count) : storage_(before + count + after, guard) {}

  guarded_buffer(std::size_t count, T (*value)(int, std::size_t), int rank) : guarded_buffer(count) {
    fill(value, rank);
  }

  void fill(T (*value)(int, std::size_t), int rank) {
    for (std::size_t i = 0; i < span().size(); ++i) span()[i] = value(rank, i);
  }

  std::span<T> span() { return std::span<T>(storage_).subspan(before, storage_.size() - before - after); }

  bool guards_intact() const {
    const auto is_guard = [](const T& x) { return same_bytes(x, guard); };
    const std::span<const T> all(storage_);
    return std::ranges::all_of(all.first(before), is_guard) && std::ranges::all_of(all.last(after), is_guard);
  }

 private:
  static constexpr std::size_t before = 17, after = 64;
  static constexpr T guard = static_cast<T>(77);
  std::vector<T> storage_;
};

}  // namespace swiglu::comm_detail

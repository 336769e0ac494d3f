// SPDX-License-Identifier: MIT
#pragma once

// What the ranks of one axis show each other: for every rank the call it makes, written before it arrives and read by
// all after they have met. There are two boards, used in turn. A rank writes to one again only two calls later, and by
// then everybody has come to the call in between, that is, has finished reading: so a small collective needs one
// meeting only.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <swiglu/comm/detail/shown_call.hpp>

namespace swiglu::comm_detail {

class blackboard {
 public:
  /// `room`: the bytes a rank may copy to a board.
  blackboard(int ranks, std::size_t room)
      : calls_(2 * static_cast<std::size_t>(ranks)),
        lines_((room + sizeof(line) - 1) / sizeof(line)),
        copies_(calls_.size() * lines_) {
    for (shown_call& call : calls_) call.buffers.reserve(16);  // larger bundles allocate once
  }

  shown_call& call(int rank, std::uint64_t sequence) noexcept { return calls_[index(rank, sequence)]; }

  std::byte* copy_of(int rank, std::uint64_t sequence) noexcept {
    return lines_ == 0 ? nullptr : copies_[index(rank, sequence) * lines_].bytes.data();
  }

 private:
  struct alignas(64) line {
    std::array<std::byte, 64> bytes;
  };

  static std::size_t index(int rank, std::uint64_t sequence) noexcept {
    return 2 * static_cast<std::size_t>(rank) + static_cast<std::size_t>(sequence % 2);
  }

  std::vector<shown_call> calls_;
  std::size_t lines_;  // per copy
  std::vector<line> copies_;
};

}  // namespace swiglu::comm_detail

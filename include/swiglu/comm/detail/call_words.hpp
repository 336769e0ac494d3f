// SPDX-License-Identifier: MIT
#pragma once

// How calls travel over a communicator that can do nothing but add: in words of 16 bits, which every carrier type holds
// exactly. Each rank has a place of its own in the message, and everybody else adds zeros to it, so that after one
// all_reduce every rank holds the calls of all.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <swiglu/comm/detail/shown_call.hpp>

namespace swiglu::comm_detail {

/// Writes whole numbers into a message, or reads them from it.
template <class Carrier>
class word_stream {
  static_assert(std::numeric_limits<Carrier>::digits >= 16, "swiglu: the carrier has to hold 65535 exactly");

 public:
  explicit word_stream(std::span<Carrier> words) : words_(words) {}

  void put(std::uint64_t value, std::size_t words) {
    for (std::size_t i = 0; i < words; ++i) words_[at_++] = static_cast<Carrier>(value >> (16 * i) & 0xffffU);
  }
  std::uint64_t get(std::size_t words) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < words; ++i) value |= (static_cast<std::uint64_t>(words_[at_++]) & 0xffffU) << (16 * i);
    return value;
  }

 private:
  std::span<Carrier> words_;
  std::size_t at_ = 0;
};

inline constexpr std::size_t buffer_words = 4 + 4 + 12;  // count, hash of the name, its first 24 characters
inline constexpr std::size_t call_words = 4 + 1 + 1 + 1 + 2 + 4 + buffer_words;

template <class Carrier>
void put_buffer(word_stream<Carrier>& to, const shown_buffer& b) {
  to.put(b.count, 4);
  to.put(b.name_hash, 4);
  for (std::size_t i = 0; i < b.name.size(); i += 2)
    to.put(static_cast<unsigned char>(b.name[i]) | static_cast<unsigned>(static_cast<unsigned char>(b.name[i + 1]))
                                                       << 8,
           1);
}

template <class Carrier>
shown_buffer get_buffer(word_stream<Carrier>& from) {
  shown_buffer b{nullptr, nullptr, from.get(4), from.get(4), {}};
  for (std::size_t i = 0; i < b.name.size(); i += 2) {
    const std::uint64_t pair = from.get(1);
    b.name[i] = static_cast<char>(pair & 0xffU);
    b.name[i + 1] = static_cast<char>(pair >> 8);
  }
  return b;
}

/// A call without its buffers but the first, which is enough for those with one.
template <class Carrier>
void put_call(std::span<Carrier> words, const shown_call& call) {
  word_stream<Carrier> to(words);
  to.put(call.sequence, 4);
  to.put(static_cast<std::uint64_t>(call.op), 1);
  to.put(static_cast<unsigned char>(call.type.kind), 1);
  to.put(call.type.size, 1);
  to.put(call.buffers.size(), 2);
  to.put(call.hash, 4);
  put_buffer(to, call.buffers.empty() ? show(nullptr, 0, {}) : call.buffers.front());
}

/// `all` elements are not told apart by this; `bytes` are those of the first buffer.
template <class Carrier>
shown_call get_call(std::span<Carrier> words) {
  word_stream<Carrier> from(words);
  shown_call call;
  call.sequence = from.get(4);
  call.op = static_cast<operation>(from.get(1) & 3U);
  call.type = {static_cast<char>(from.get(1)), from.get(1), nullptr};
  const std::uint64_t buffers = from.get(2);
  call.hash = from.get(4);
  const shown_buffer first = get_buffer(from);
  call.bytes = first.count * call.type.size;
  if (buffers > 0) call.buffers.assign(buffers, show(nullptr, 0, {}));
  if (buffers > 0) call.buffers.front() = first;
  return call;
}

/// What one rank knows of the calls of all ranks, and how it gets there.
template <class Carrier>
class call_exchange {
 public:
  explicit call_exchange(int ranks) : ranks_(static_cast<std::size_t>(ranks)), words_(ranks_ * call_words) {}

  /// The message to be added up over the ranks before differing() is asked.
  std::span<Carrier> message(const shown_call& mine, int rank) {
    std::ranges::fill(words_, Carrier{});
    put_call(part(static_cast<std::size_t>(rank)), mine);
    return words_;
  }

  /// Throws collective_mismatch if the calls differ, on every rank the same. `add_up(span)` is called, on all ranks or
  /// on none, if what differs are later buffers of bundles of one length.
  template <class AddUp>
  void compare(const shown_call& mine, int rank, AddUp add_up) {
    if (all_equal()) return;
    std::vector<shown_call> calls;
    for (std::size_t r = 0; r < ranks_; ++r) calls.push_back(get_call(part(r)));
    const shown_call& first = calls.front();
    for (std::size_t r = 1; r < ranks_; ++r)
      if (differ_at_once(first, calls[r])) throw_mismatch({}, first, calls[r], static_cast<int>(r));

    const std::size_t each = first.buffers.size() * buffer_words;
    std::vector<Carrier> buffers(ranks_ * each);
    const auto of = [&](std::size_t r) { return std::span<Carrier>(buffers).subspan(r * each, each); };
    word_stream<Carrier> to(of(static_cast<std::size_t>(rank)));
    for (const shown_buffer& b : mine.buffers) put_buffer(to, b);
    add_up(std::span<Carrier>(buffers));
    for (std::size_t r = 0; r < ranks_; ++r) {
      word_stream<Carrier> from(of(r));
      for (shown_buffer& b : calls[r].buffers) b = get_buffer(from);
    }
    for (std::size_t r = 1; r < ranks_; ++r)
      if (!calls[r].same_as(first)) throw_mismatch({}, first, calls[r], static_cast<int>(r));
  }

 private:
  std::span<Carrier> part(std::size_t rank) {
    return std::span<Carrier>(words_).subspan(rank * call_words, call_words);
  }
  bool all_equal() {
    for (std::size_t r = 1; r < ranks_; ++r)
      if (!std::ranges::equal(part(0), part(r))) return false;
    return true;
  }
  static bool differ_at_once(const shown_call& a, const shown_call& b) {
    return a.sequence != b.sequence || a.op != b.op || a.type.kind != b.type.kind || a.type.size != b.type.size ||
           a.buffers.size() != b.buffers.size() ||
           (!a.buffers.empty() && !a.buffers.front().same_as(b.buffers.front()));
  }

  std::size_t ranks_;
  std::vector<Carrier> words_;
};

}  // namespace swiglu::comm_detail

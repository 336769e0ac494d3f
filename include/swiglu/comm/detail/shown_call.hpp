// SPDX-License-Identifier: MIT
#pragma once

// A collective as data: which operation a rank calls, on buffers of which type, size and name. What the ranks compare
// before anything moves, and what an error says about them.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/detail/abort_state.hpp>

namespace swiglu::comm_detail {

/// The partial sums that are formed at a time.
inline constexpr std::size_t tile_bytes = 4096;

/// What can be summed: plain data with a +, shared between threads by copying bytes.
template <class T>
concept summable = std::is_trivially_copyable_v<T> && std::same_as<T, std::remove_cv_t<T>> && sizeof(T) <= tile_bytes &&
                   alignof(T) <= 64 && requires(const T& a, const T& b) {
  static_cast<T>(a + b);
};

/// An element type at run time.
struct element {
  char kind;  // 'f'loat, 'i'nteger, 'u'nsigned, or 'x' for any other
  std::size_t size;
  /// sum[i] += term[i]. The one addition of this transport: every scheme adds the terms of an element by it, in
  /// ascending rank, so none of them can give other bits than the rest.
  void (*add)(std::byte* sum, const std::byte* term, std::size_t count) noexcept;

  std::string text() const {
    const std::string_view name = kind == 'f' ? "float" : kind == 'i' ? "int" : kind == 'u' ? "uint" : "element";
    return std::string(name).append(std::to_string(8 * size));
  }
};

template <summable T>
void add(std::byte* sum, const std::byte* term, std::size_t count) noexcept {
  T* const a = reinterpret_cast<T*>(sum);
  const T* const b = reinterpret_cast<const T*>(term);
  for (std::size_t i = 0; i < count; ++i) a[i] = static_cast<T>(a[i] + b[i]);
}

template <summable T>
inline constexpr element element_of{std::is_floating_point_v<T> ? 'f'
                                    : std::is_signed_v<T>       ? 'i'
                                    : std::is_unsigned_v<T>     ? 'u'
                                                                : 'x',
                                    sizeof(T), &add<T>};

/// One buffer of a call.
struct shown_buffer {
  std::byte* home;          // the caller's buffer
  const std::byte* source;  // where the peers may read it: the caller's buffer, or the copy on the board
  std::size_t count;
  std::uint64_t name_hash;
  std::array<char, 24> name;  // its beginning, for reports

  bool same_as(const shown_buffer& other) const noexcept {
    return count == other.count && name_hash == other.name_hash;
  }
  std::string quoted() const { return name[0] != 0 ? std::string("\"").append(name.data()).append("\"") : "unnamed"; }
};

constexpr std::uint64_t hash_seed = 14695981039346656037U;  // FNV-1a
constexpr std::uint64_t hash_step(std::uint64_t hash, std::uint64_t value) noexcept {
  return (hash ^ value) * 1099511628211U;
}

inline shown_buffer show(std::byte* home, std::size_t count, std::string_view name) noexcept {
  shown_buffer shown{home, home, count, hash_seed, {}};
  for (const char c : name) shown.name_hash = hash_step(shown.name_hash, static_cast<unsigned char>(c));
  std::ranges::copy(name.substr(0, shown.name.size() - 1), shown.name.begin());
  return shown;
}

/// The call one rank makes.
struct alignas(64) shown_call {
  std::uint64_t sequence = 0;
  operation op = operation::none;
  element type{};
  std::uint64_t hash = 0;  // over the counts and names of all buffers
  std::size_t bytes = 0;   // of all buffers
  std::vector<shown_buffer> buffers;

  void seal() noexcept {
    hash = hash_seed;
    bytes = 0;
    for (const shown_buffer& b : buffers) {
      hash = hash_step(hash_step(hash, b.count), b.name_hash);
      bytes += b.count * type.size;
    }
  }

  bool same_as(const shown_call& other) const noexcept {
    return sequence == other.sequence && op == other.op && type.kind == other.type.kind &&
           type.size == other.type.size && buffers.size() == other.buffers.size() && hash == other.hash;
  }

  std::string text() const {
    std::string text = std::string(name_of(op)).append(" #").append(std::to_string(sequence)).append(" of ");
    if (buffers.size() != 1) text.append(std::to_string(buffers.size())).append(" buffers, ");
    return text.append(std::to_string(type.size == 0 ? 0 : bytes / type.size)).append(" ").append(type.text());
  }

  /// The first thing in which two calls differ, for "rank 0 ..., rank 2 ...".
  struct contrast {
    std::string mine, theirs;
  };
  contrast against(const shown_call& other) const {
    const auto pair = [&](auto&& say) { return contrast{say(*this), say(other)}; };
    if (sequence != other.sequence || op != other.op)
      return pair([](const shown_call& c) { return "calls " + c.text(); });
    if (type.kind != other.type.kind || type.size != other.type.size)
      return pair([](const shown_call& c) { return "passes " + c.type.text(); });
    if (buffers.size() != other.buffers.size())
      return pair([](const shown_call& c) { return "passes " + std::to_string(c.buffers.size()) + " buffers"; });
    std::size_t i = 0;
    while (i + 1 < buffers.size() && buffers[i].same_as(other.buffers[i])) ++i;
    return pair([i, counts = buffers[i].count != other.buffers[i].count](const shown_call& c) {
      const std::string what = counts ? std::to_string(c.buffers[i].count) + " elements" : c.buffers[i].quoted();
      return "passes " + what + " as buffer " + std::to_string(i);
    });
  }
};

/// Whether two of the buffers of a and b share memory; a buffer and itself do not count.
inline bool shares_memory(const shown_call& a, const shown_call& b) noexcept {
  for (const shown_buffer& x : a.buffers)
    for (const shown_buffer& y : b.buffers)
      if (&x != &y && x.home < y.home + y.count * b.type.size && y.home < x.home + x.count * a.type.size) return true;
  return false;
}

/// What every rank throws if ranks 0 and `other` along an axis do not make the same call: on all of them the same text.
[[noreturn]] inline void throw_mismatch(std::string_view axis, const shown_call& first, const shown_call& call,
                                        int other) {
  const auto [mine, theirs] = first.against(call);
  std::string text = axis.empty() ? std::string() : std::string(axis) + " ";
  text.append(name_of(first.op)).append(" #").append(std::to_string(first.sequence));
  throw collective_mismatch(text + ": the ranks do not make the same call: rank 0 " + mine + ", rank " +
                            std::to_string(other) + " " + theirs);
}

}  // namespace swiglu::comm_detail

// SPDX-License-Identifier: MIT
#pragma once

// A communicator under examination, seen from one rank, and what has been found so far.

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/conformance.hpp>
#include <swiglu/comm/detail/check_data.hpp>

namespace swiglu::comm_detail {

template <class T, communicator<T> C>
class check_probe {
 public:
  explicit check_probe(C& communicator) : c(communicator), rank(c.rank()), size(c.size()) {}

  C& c;
  const int rank;
  const int size;
  conformance_report report;

  void expect(communicator_law law, bool holds, std::string_view otherwise) {
    if (!holds && !report.broke(law)) report.violations.push_back({law, std::string(otherwise)});
  }

  /// Every element is due(its index), to the bit.
  template <class Due>
  void expect_each(communicator_law law, std::span<const T> data, Due due, std::string_view otherwise) {
    for (std::size_t i = 0; i < data.size(); ++i)
      if (!same_bytes<T>(data[i], due(i))) return expect(law, false, otherwise);
  }

  /// The buffer holds the sums of whole(), and nothing was written beside it.
  void expect_sum(communicator_law law, guarded_buffer<T>& buffer, std::string_view otherwise) {
    expect_each(
        law, buffer.span(), [&](std::size_t i) { return ascending_fold(whole<T>, size, i); }, otherwise);
    expect(law, buffer.guards_intact(), "a call writes outside the buffer");
  }

  /// Whether all ranks hold the same bytes. Each compares the sum of everybody's hashes with `size` times its own: if
  /// they differ, this fails on one rank at least.
  bool agree(std::span<const T> data) {
    std::uint64_t hash = 14695981039346656037U;
    for (const T& x : data)
      for (const unsigned char byte : std::bit_cast<std::array<unsigned char, sizeof(T)>>(x))
        hash = (hash ^ byte) * 1099511628211U;
    std::array<T, 8> own{};
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<T>(hash >> (8 * i) & 255U);
    std::array<T, 8> sum = own;
    c.all_reduce(std::span<T>(sum));
    for (T& x : own) x = static_cast<T>(x * static_cast<T>(size));
    return sum == own;
  }

  /// Calls `round(whether this rank is late)` several times, in each of which one rank comes late, every one in turn.
  /// Returns whether at least half of the rounds in which this rank was in time returned true: the scheduler may delay
  /// any one of them.
  template <class Round>
  bool holds_with_one_late(std::chrono::milliseconds delay, Round round) {
    int observed = 0, held = 0;
    for (int i = 0; i < std::max(8, size); ++i) {
      T ready{};
      c.all_reduce(std::span<T>(&ready, 1));
      const bool late = rank == i % size;
      if (late) std::this_thread::sleep_for(delay);
      const bool holds = round(late);
      observed += !late;
      held += !late && holds;
    }
    return 2 * held >= observed;
  }

  /// Puts into every report what is in any.
  void share() {
    std::array<T, communicator_law_names.size()> broken{};
    for (const auto& v : report.violations) broken[static_cast<std::size_t>(v.law)] = T{1};
    c.all_reduce(std::span<T>(broken));
    for (std::size_t i = 0; i < broken.size(); ++i)
      expect(static_cast<communicator_law>(i), broken[i] == T{}, "another rank saw a violation");
  }

  /// Whether a call throws, which here it should.
  bool refuses() {
    T x{};
    try {
      c.all_reduce(std::span<T>(&x, 1));
      return false;
    } catch (...) {
      return true;
    }
  }

  /// After an error without reason: no further call, and no peer shall wait for one.
  void give_up(std::string_view why) {
    expect(communicator_law::failure, false, std::string("a call failed: ").append(why));
    if constexpr (abortable_communicator<C>) c.abort(std::current_exception());
  }
};

}  // namespace swiglu::comm_detail

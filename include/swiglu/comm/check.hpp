// SPDX-License-Identifier: MIT
#pragma once

// The laws of communicator.hpp as a test that runs on any transport: whoever writes one calls check_communicator on
// every rank of it and reads the report. Not every law can be observed (that no buffer is kept, say), and a rank that
// hangs cannot report anything: run it under a time limit.

#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/conformance.hpp>
#include <swiglu/comm/detail/check_data.hpp>
#include <swiglu/comm/detail/check_probe.hpp>

namespace swiglu {

struct check_options {
  /// How late a rank comes on purpose, to see whether the others wait for it.
  std::chrono::milliseconds delay{20};

  /// Also checks abort(), after which the communicator is of no further use (nor, with some transports, the process).
  bool abort = false;
};

namespace comm_detail {

template <class T, communicator<T> C>
class communicator_check : check_probe<T, C> {
 public:
  communicator_check(C& communicator, check_options options) : probe(communicator), options_(options) {}

  conformance_report run() {
    try {
      if (rank < 0 || rank >= size) throw communicator_error("rank() is not in [0, size())");
      sums();
      coordinates();
      if (report.broke(law::coordinates)) return report;  // everything else is computed from them
      not_finite();
      same_bits();
      empty_calls();
      small_calls();
      if constexpr (bundled_communicator<C, T>) bundles();
      if constexpr (nonblocking_communicator<C, T>) requests();
      if constexpr (scatter_gather_communicator<C, T>) parts();
      share();
      // These may end the communicator.
      if constexpr (tagged_communicator<C, T>) tags();
      if constexpr (abortable_communicator<C>) {
        if (options_.abort) aborts();
      }
    } catch (const std::exception& e) {
      give_up(e.what());
    } catch (...) {
      give_up("an exception that is not a std::exception");
    }
    return report;
  }

 private:
  using probe = check_probe<T, C>;
  using probe::agree, probe::c, probe::expect, probe::expect_each, probe::expect_sum, probe::give_up, probe::rank,
      probe::refuses, probe::report, probe::share, probe::size, probe::holds_with_one_late;

  using clock = std::chrono::steady_clock;
  using law = communicator_law;
  using buffer = guarded_buffer<T>;
  static constexpr reduction_order order = reduction_order_v<C>;

  // ---- laws of the concept ------------------------------------------------------------------------------------------

  void coordinates() {
    std::array<T, 3> seen{T{1}, static_cast<T>(rank), static_cast<T>(rank * rank)};
    c.all_reduce(std::span<T>(seen));
    std::array<T, 3> due{};
    for (int r = 0; r < size; ++r) {
      due[0] = static_cast<T>(due[0] + T{1});
      due[1] = static_cast<T>(due[1] + static_cast<T>(r));
      due[2] = static_cast<T>(due[2] + static_cast<T>(r * r));
    }
    expect(law::coordinates, seen == due, "the sums of 1, rank() and rank()^2 are not those of ranks 0 to size() - 1");
    expect(law::coordinates, c.rank() == rank && c.size() == size, "rank() or size() has changed");
  }

  void sums() {
    for (const std::size_t count : std::initializer_list<std::size_t>{0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64,
                                                                      65, 1000, 4095, 4099, 65539}) {
      buffer b(count, whole<T>, rank);
      c.all_reduce(b.span());
      expect_sum(law::sum, b, "all_reduce of " + std::to_string(count) + " elements is not the sum over the ranks");
    }
    if (size != 1) return;
    buffer b(1000, rough<T>, 0);
    c.all_reduce(b.span());
    expect_each(
        law::alone, b.span(), [](std::size_t i) { return rough<T>(0, i); }, "one rank's buffer is changed");
  }

  void not_finite() {
    if constexpr (std::numeric_limits<T>::has_infinity && std::numeric_limits<T>::has_quiet_NaN) {
      constexpr T infinity = std::numeric_limits<T>::infinity();
      std::array<T, 4> x{T{1}, T{1}, T{1}, T{1}};
      if (rank == 0) x[2] = std::numeric_limits<T>::quiet_NaN(), x[3] = infinity;
      if (rank == size - 1) x[0] = infinity, x[1] = -infinity, x[3] = -infinity;
      c.all_reduce(std::span<T>(x));
      expect(law::not_finite, x[0] == infinity && x[1] == -infinity, "infinity on one rank does not reach all");
      expect(law::not_finite, std::isnan(x[2]), "NaN on one rank does not reach all");
      expect(law::not_finite, size == 1 || std::isnan(x[3]), "infinity - infinity is not NaN on all ranks");
    }
  }

  void same_bits() {
    for (const std::size_t count : std::initializer_list<std::size_t>{1, 2, 17, 100, 4099, 40009}) {
      buffer first(count, rough<T>, rank), second(count, rough<T>, rank);
      c.all_reduce(first.span());
      expect(law::same_bits, agree(first.span()), "the ranks hold different bits");
      c.all_reduce(second.span());
      if constexpr (order != reduction_order::unspecified)
        expect_each(
            law::same_bits, second.span(), [&](std::size_t i) { return first.span()[i]; },
            "the same call gives other bits the second time");
      if constexpr (order == reduction_order::rank_order)
        expect_each(
            law::same_bits, first.span(), [&](std::size_t i) { return ascending_fold(rough<T>, size, i); },
            "the sum of " + std::to_string(count) + " elements is not ((x0 + x1) + x2) + ... to the bit");
    }
  }

  void empty_calls() {
    const bool waits = holds_with_one_late(options_.delay, [&](bool) {
      const auto start = clock::now();
      c.all_reduce(std::span<T>());
      return clock::now() - start > options_.delay / 2;
    });
    expect(law::empty, waits, "all_reduce of nothing returns before every rank has called it");
  }

  void small_calls() {
    for (std::size_t i = 0; i < 2000; ++i) {
      if (i % 64 == static_cast<std::size_t>(rank)) std::this_thread::sleep_for(std::chrono::microseconds(50));
      std::array<T, 5> x{};
      const std::span<T> some = std::span<T>(x).first(1 + i % x.size());
      for (std::size_t k = 0; k < some.size(); ++k) some[k] = whole<T>(rank, i + k);
      c.all_reduce(some);
      expect_each(
          law::in_sequence, some, [&](std::size_t k) { return ascending_fold(whole<T>, size, i + k); },
          "a sum is wrong in a series of small calls");
    }
  }

  // ---- laws of the refinements --------------------------------------------------------------------------------------

  void bundles() {
    const std::vector<std::vector<std::size_t>> shapes{
        {}, {0}, {4}, {2, 2}, {1, 3}, {3, 0, 1000, 17}, {5000, 1, 30011}};
    for (const std::vector<std::size_t>& counts : shapes) {
      std::vector<buffer> exact, rounded;
      std::vector<std::span<T>> exact_spans, rounded_spans;
      for (const std::size_t count : counts) {
        exact_spans.push_back(exact.emplace_back(count, whole<T>, rank).span());
        rounded_spans.push_back(rounded.emplace_back(count, rough<T>, rank).span());
      }
      c.all_reduce(std::span<const std::span<T>>(exact_spans));
      for (buffer& b : exact) expect_sum(law::bundle, b, "the sums of a bundle are wrong");
      c.all_reduce(std::span<const std::span<T>>(rounded_spans));
      for (const std::span<T> b : rounded_spans) {
        expect(law::bundle, agree(b), "after a bundle the ranks hold different bits");
        if constexpr (order == reduction_order::rank_order)
          expect_each(
              law::bundle, b, [&](std::size_t i) { return ascending_fold(rough<T>, size, i); },
              "a bundle gives other bits than one call per buffer");
      }
    }
  }

  void requests() {
    for (const std::size_t count : std::initializer_list<std::size_t>{0, 1, 17, 1000, 65539}) {
      buffer waited(count, whole<T>, rank), tested(count, whole<T>, rank);
      auto first = c.iall_reduce(waited.span());
      auto moved = std::move(first);
      moved.wait();
      expect_sum(law::nonblocking, waited, "iall_reduce and wait() is not the sum");

      auto second = c.iall_reduce(tested.span());
      const auto limit = clock::now() + std::chrono::seconds(10);
      bool complete = false;
      while (!(complete = second.test()) && clock::now() < limit) std::this_thread::yield();
      expect(law::nonblocking, complete, "test() does not become true although all ranks have called");
      second.wait();
      expect_sum(law::nonblocking, tested, "iall_reduce and test() is not the sum");
    }
    const auto start_to_end = [&](auto observe) {
      return holds_with_one_late(options_.delay, [&](bool) {
        buffer b(16, whole<T>, rank);
        const auto start = clock::now();
        auto started = c.iall_reduce(b.span());
        const bool holds = observe(started, clock::now() - start);
        started.wait();
        expect_sum(law::nonblocking, b, "iall_reduce with a late rank is not the sum");
        return holds;
      });
    };
    expect(law::nonblocking, start_to_end([&](auto&, auto time) { return time < options_.delay / 2; }),
           "iall_reduce waits for the other ranks");
    expect(law::nonblocking, start_to_end([](auto& started, auto) { return !started.test(); }),
           "test() is true although a rank has not called yet");
  }

  void parts() {
    for (const std::size_t part : std::initializer_list<std::size_t>{0, 1, 3, 16, 1000, 10007}) {
      const auto ranks = static_cast<std::size_t>(size);
      const std::size_t before_mine = part * static_cast<std::size_t>(rank);
      // Exact numbers, or, where the order is promised, those that show it.
      constexpr auto value = order == reduction_order::rank_order ? &rough<T> : &whole<T>;
      buffer whole_in(part * ranks, value, rank), mine(part);
      c.reduce_scatter(std::span<const T>(whole_in.span()), mine.span());
      expect_each(
          law::scatter_gather, mine.span(), [&](std::size_t i) { return ascending_fold(value, size, before_mine + i); },
          "reduce_scatter does not leave this rank's part of the sum");
      expect_each(
          law::scatter_gather, whole_in.span(), [&](std::size_t i) { return value(rank, i); },
          "reduce_scatter changes its input");

      buffer mine_in(part, rough<T>, rank), all(part * ranks);
      c.all_gather(std::span<const T>(mine_in.span()), all.span());
      expect_each(
          law::scatter_gather, all.span(),
          [&](std::size_t i) { return rough<T>(static_cast<int>(i / part), i % part); },
          "all_gather does not leave the inputs in ascending rank");
      expect_each(
          law::scatter_gather, mine_in.span(), [&](std::size_t i) { return rough<T>(rank, i); },
          "all_gather changes its input");
      expect(law::scatter_gather,
             whole_in.guards_intact() && mine.guards_intact() && mine_in.guards_intact() && all.guards_intact(),
             "a call writes outside the buffer");
    }
  }

  void tags() {
    buffer a(100, whole<T>, rank), b(100, whole<T>, rank);
    const std::array<std::span<T>, 2> spans{a.span(), b.span()};
    const auto call = [&](std::string_view first, std::string_view second) {
      const std::array<std::string_view, 2> names{first, second};
      c.all_reduce(std::span<const std::span<T>>(spans), std::span<const std::string_view>(names));
    };
    call("gate", "up");
    expect_sum(law::tags, a, "the sums of a bundle with names are wrong");
    expect_sum(law::tags, b, "the sums of a bundle with names are wrong");
    if (size == 1) return;
    a.fill(whole<T>, rank);
    b.fill(whole<T>, rank);
    bool noticed = true, usable = false;
    try {
      rank == size - 1 ? call("up", "gate") : call("gate", "up");
      noticed = false;
    } catch (const collective_mismatch&) {
      usable = true;  // the one error after which the communicator goes on
    } catch (...) {
    }
    expect(law::tags, noticed, "two buffers swapped on one rank pass unnoticed");
    if (!noticed) return;
    for (buffer* const x : {&a, &b})
      expect_each(
          law::tags, x->span(), [&](std::size_t i) { return whole<T>(rank, i); },
          "a call whose names differ changes the buffers");
    if (usable)
      call("gate", "up");
    else
      expect(law::tags, refuses(), "after an error that is not a collective_mismatch, a call does not throw");
  }

  void aborts() {
    if (rank == size - 1) {
      std::this_thread::sleep_for(options_.delay);  // so that the others wait in the call
      c.abort(std::make_exception_ptr(communicator_error("check_communicator tries abort()")));
    }
    expect(law::abort, refuses(), "a call does not throw although a rank has aborted");
    expect(law::abort, refuses(), "after an abort, a later call does not throw");
  }

  check_options options_;
};

}  // namespace comm_detail

/// Checks a communicator against its laws and those of the refinements it has. Collective: every rank calls it, with
/// the same options, and gets a report. What one rank saw before the last two laws is in the reports of all, if the
/// communicator lets them say so. Takes about a second. Throws nothing that the communicator throws: an error without
/// reason is a violation, after which this rank makes no further call, but aborts, if it can, so that no other waits
/// for it. T: an arithmetic type that holds 255 * size() exactly.
template <class T = float, communicator<T> C>
conformance_report check_communicator(C& c, check_options options = {}) {
  static_assert(std::is_arithmetic_v<T>, "swiglu::check_communicator: T must be an arithmetic type");
  return comm_detail::communicator_check<T, C>(c, options).run();
}

}  // namespace swiglu

// SPDX-License-Identifier: MIT
// check_communicator: sound transports pass, and each broken one is caught by the law that it breaks.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <swiglu/comm/check.hpp>
#include <swiglu/comm/launch.hpp>
#include <swiglu/comm/self.hpp>

#include "comm/support.hpp"

using namespace comm_test;
using swiglu::communicator_law;
using swiglu::conformance_report;
using swiglu::thread_communicator;
using floats = std::span<float>;
using span_list = std::span<const std::span<float>>;
using name_list = std::span<const std::string_view>;

namespace {

/// The reports of all ranks, each with a communicator made from one of threads.
template <class Make>
std::vector<conformance_report> reports(int ranks, Make make, swiglu::check_options options = {}) {
  std::vector<conformance_report> seen(static_cast<std::size_t>(ranks));
  auto how = patient();
  how.timeout = 20s;
  (void)outcome_of([&] {
    swiglu::run_ranks(
        ranks,
        [&](thread_communicator& inner) {
          auto c = make(inner);
          seen[static_cast<std::size_t>(inner.rank())] = swiglu::check_communicator(c, options);
        },
        how);
  });
  return seen;
}

/// Sound, with the three basic members; what the broken ones are made of. They promise rank order only if they say so.
struct basic {
  explicit basic(thread_communicator& c) : inner(c) {}
  int rank() const { return inner.rank(); }
  int size() const { return inner.size(); }
  void all_reduce(floats x) { inner.all_reduce(x); }
  thread_communicator& inner;
};

struct averages : basic {
  using basic::basic;
  void all_reduce(floats x) {
    inner.all_reduce(x);
    for (float& v : x) v /= static_cast<float>(size());
  }
};

struct forgets_the_tail : basic {
  using basic::basic;
  void all_reduce(floats x) { inner.all_reduce(x.first(x.size() < 8 ? x.size() : x.size() / 8 * 8)); }
};

struct writes_past_the_end : basic {
  using basic::basic;
  void all_reduce(floats x) {
    inner.all_reduce(x);
    if (x.size() > 1000) x.data()[x.size()] = 0.0F;
  }
};

struct sums_on_rank_0_only : basic {
  using basic::basic;
  void all_reduce(floats x) {
    std::vector<float> copy(x.begin(), x.end());
    inner.all_reduce(floats(copy));
    if (rank() == 0) std::ranges::copy(copy, x.begin());
  }
};

/// Every rank adds its own term first: right to rounding, different bits.
struct own_term_first : basic {
  using basic::basic;
  void all_reduce(floats x) {
    std::vector<float> all(x.size() * static_cast<std::size_t>(size()));
    inner.all_gather(std::span<const float>(x), floats(all));
    for (int r = 0; r < size(); ++r)
      for (std::size_t i = 0; r != rank() && i < x.size(); ++i) x[i] += all[static_cast<std::size_t>(r) * x.size() + i];
  }
};

/// A root's sum sent to everybody, but begun at zero: -0 becomes +0.
struct starts_at_zero : basic {
  static constexpr auto order = swiglu::reduction_order::rank_order;
  using basic::basic;
  void all_reduce(floats x) {
    inner.all_reduce(x);
    for (float& v : x) v += 0.0F;
  }
};

/// A ring over chunks: the order rotates with the position.
struct rotates_the_order : basic {
  static constexpr auto order = swiglu::reduction_order::rank_order;
  using basic::basic;
  void all_reduce(floats x) {
    std::vector<float> all(x.size() * static_cast<std::size_t>(size()));
    inner.all_gather(std::span<const float>(x), floats(all));
    for (std::size_t i = 0; i < x.size(); ++i) {
      float sum = 0.0F;
      for (std::size_t k = 0; k < static_cast<std::size_t>(size()); ++k)
        sum += all[(i + k) % static_cast<std::size_t>(size()) * x.size() + i];
      x[i] = sum;
    }
  }
};

/// Adds in the order of arrival, or here, in another order each time.
struct another_order_each_time : basic {
  static constexpr auto order = swiglu::reduction_order::per_run;
  using basic::basic;
  int calls = 0;
  void all_reduce(floats x) {
    std::vector<float> all(x.size() * static_cast<std::size_t>(size()));
    inner.all_gather(std::span<const float>(x), floats(all));
    ++calls;
    for (std::size_t i = 0; i < x.size(); ++i) {
      float sum = 0.0F;
      for (int k = 0; k < size(); ++k) sum += all[static_cast<std::size_t>((calls + k) % size()) * x.size() + i];
      x[i] = sum;
    }
  }
};

struct drops_what_is_not_finite : basic {
  using basic::basic;
  void all_reduce(floats x) {
    for (float& v : x)
      if (!std::isfinite(v)) v = 0.0F;
    inner.all_reduce(x);
  }
};

struct skips_empty_calls : basic {
  using basic::basic;
  void all_reduce(floats x) {
    if (!x.empty()) inner.all_reduce(x);
  }
};

struct doubles_when_alone : basic {
  using basic::basic;
  void all_reduce(floats x) {
    inner.all_reduce(x);
    if (size() == 1)
      for (float& v : x) v += v;
  }
};

struct claims_rank_0 : basic {
  using basic::basic;
  int rank() const { return 0; }
};

struct fails_now_and_then : basic {
  using basic::basic;
  void abort(std::exception_ptr e) noexcept { inner.abort(e); }
  void all_reduce(floats x) {
    if (rank() == 1 && x.size() == 4095) throw std::runtime_error("the cable is out");
    inner.all_reduce(x);
  }
};

/// Small calls go through one cell per rank, and a fast rank's next call overwrites what a slow one has not read yet.
struct one_cell {
  struct shared {
    std::mutex mutex;
    std::vector<float> cells = std::vector<float>(64);
  };
  one_cell(thread_communicator& c, shared& s) : inner(c), state(s) {}
  int rank() const { return inner.rank(); }
  int size() const { return inner.size(); }
  void all_reduce(floats x) {
    if (x.empty() || x.size() > 5) return inner.all_reduce(x);
    const auto cell = [&](int r) { return floats(state.cells).subspan(static_cast<std::size_t>(r) * 5, x.size()); };
    const auto locked = [&](auto work) {
      const std::lock_guard lock(state.mutex);
      work();
    };
    locked([&] { std::ranges::copy(x, cell(rank()).begin()); });
    float ready = 0.0F;
    inner.all_reduce(floats(&ready, 1));  // everybody has written, but nobody knows whether everybody has read
    if (rank() == 0) std::this_thread::sleep_for(20us);
    locked([&] {
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = 0.0F;
        for (int r = 0; r < size(); ++r) x[i] += cell(r)[i];
      }
    });
  }
  thread_communicator& inner;
  shared& state;
};

/// A bundle flattened to one buffer, in which empty ones are given room.
struct misplaces_a_bundle : basic {
  using basic::all_reduce;
  using basic::basic;
  void all_reduce(span_list buffers) {
    for (const floats b : buffers)
      if (b.size() != 17) inner.all_reduce(b);
  }
};

struct sums_a_bundle_in_another_order : basic {
  static constexpr auto order = swiglu::reduction_order::rank_order;
  using basic::all_reduce;
  using basic::basic;
  void all_reduce(span_list buffers) {
    for (const floats b : buffers) {
      std::vector<float> all(b.size() * static_cast<std::size_t>(size()));
      inner.all_gather(std::span<const float>(b), floats(all));
      for (std::size_t i = 0; i < b.size(); ++i) {
        float sum = 0.0F;
        for (int r = size() - 1; r >= 0; --r) sum += all[static_cast<std::size_t>(r) * b.size() + i];
        b[i] = sum;
      }
    }
  }
};

struct request_that_does_nothing {
  void wait() {}
  bool test() { return true; }
};
struct starts_and_forgets : basic {
  using basic::basic;
  request_that_does_nothing iall_reduce(floats) { return {}; }
};
struct waits_in_iall_reduce : basic {
  using basic::basic;
  swiglu::finished_request iall_reduce(floats x) {
    inner.all_reduce(x);
    return {};
  }
};
struct request_that_says_done {
  swiglu::thread_request inner;
  void wait() { inner.wait(); }
  bool test() { return true; }
};
struct says_done_too_early : basic {
  using basic::basic;
  request_that_says_done iall_reduce(floats x) { return {inner.iall_reduce(x)}; }
};

struct scatters_backwards : basic {
  using basic::basic;
  void reduce_scatter(std::span<const float> in, floats out) {
    std::vector<float> sum(in.begin(), in.end());
    inner.all_reduce(floats(sum));
    const auto part = static_cast<std::size_t>(size() - 1 - rank()) * out.size();
    std::ranges::copy(floats(sum).subspan(part, out.size()), out.begin());
  }
  void all_gather(std::span<const float> in, floats out) { inner.all_gather(in, out); }
};
struct gathers_backwards : basic {
  using basic::basic;
  void reduce_scatter(std::span<const float> in, floats out) { inner.reduce_scatter(in, out); }
  void all_gather(std::span<const float> in, floats out) {
    inner.all_gather(in, out);
    if (!in.empty()) std::rotate(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(in.size()), out.end());
  }
};

struct ignores_names : basic {
  using basic::all_reduce;
  using basic::basic;
  void all_reduce(span_list buffers) { inner.all_reduce(buffers); }
  void all_reduce(span_list buffers, name_list) { inner.all_reduce(buffers); }
};
struct sums_before_it_compares_names : basic {
  using basic::all_reduce;
  using basic::basic;
  void all_reduce(span_list buffers) { inner.all_reduce(buffers); }
  void all_reduce(span_list buffers, name_list n) {
    inner.all_reduce(buffers);
    std::vector<std::span<float>> nothing(buffers.size());
    inner.all_reduce(span_list(nothing), n);
  }
};

struct ignores_an_abort : basic {
  using basic::basic;
  void abort(std::exception_ptr) noexcept {}
};

template <class Broken>
void check_caught(communicator_law law, int ranks = 3, swiglu::check_options options = {}) {
  int rank = 0;
  for (const conformance_report& report : reports(
           ranks, [](thread_communicator& c) { return Broken(c); }, options)) {
    CAPTURE(rank++);
    CAPTURE(report.text());
    CHECK(report.broke(law));
  }
}

}  // namespace

TEST_CASE("sound communicators break no law") {
  const time_limit limit("sound");
  std::mutex mutex;
  std::string found;
  const auto note = [&](const conformance_report& report) {
    const std::lock_guard lock(mutex);
    found += report.text();
  };
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (const std::size_t copy_limit : {std::size_t{16 * 1024}, std::size_t{0}})
      swiglu::run_ranks(
          ranks,
          [&](thread_communicator& c) {
            note(swiglu::check_communicator(c));
            note(swiglu::check_communicator<double>(c));
            note(swiglu::check_communicator<int>(c));
            basic b(c);
            note(swiglu::check_communicator(b));
          },
          patient(copy_limit));
  swiglu::self alone;
  note(swiglu::check_communicator(alone));
  CHECK(found == "");
}

TEST_CASE("abort is checked when asked for") {
  const time_limit limit("check abort");
  struct sound : basic {
    using basic::basic;
    void abort(std::exception_ptr e) noexcept { inner.abort(e); }
  };
  for (const auto& report : reports(3, [](thread_communicator& c) { return sound(c); }, {.abort = true}))
    CHECK(report.text() == "");
  check_caught<ignores_an_abort>(communicator_law::abort, 3, {.abort = true});
}

TEST_CASE("broken communicators are caught, on every rank") {
  const time_limit limit("broken", 300s);
  using law = communicator_law;
  SUBCASE("averages") { check_caught<averages>(law::sum); }
  SUBCASE("forgets the tail") { check_caught<forgets_the_tail>(law::sum); }
  SUBCASE("writes past the end") { check_caught<writes_past_the_end>(law::sum); }
  SUBCASE("sums on rank 0 only") {
    const auto seen = reports(3, [](thread_communicator& c) { return sums_on_rank_0_only(c); });
    CHECK(seen[1].broke(law::coordinates));
    CHECK(seen[2].broke(law::coordinates));
  }
  SUBCASE("own term first") { check_caught<own_term_first>(law::same_bits); }
  SUBCASE("starts at zero") { check_caught<starts_at_zero>(law::same_bits); }
  SUBCASE("rotates the order") { check_caught<rotates_the_order>(law::same_bits); }
  SUBCASE("another order each time") { check_caught<another_order_each_time>(law::same_bits); }
  SUBCASE("drops what is not finite") { check_caught<drops_what_is_not_finite>(law::not_finite); }
  SUBCASE("skips empty calls") { check_caught<skips_empty_calls>(law::empty); }
  SUBCASE("doubles when alone") {
    // With one rank the first sums are wrong already.
    CHECK_FALSE(reports(1, [](thread_communicator& c) { return doubles_when_alone(c); })[0].conforms());
  }
  SUBCASE("claims rank 0") { check_caught<claims_rank_0>(law::coordinates); }
  SUBCASE("fails now and then") {
    const auto seen = reports(3, [](thread_communicator& c) { return fails_now_and_then(c); });
    for (const auto& report : seen) CHECK(report.broke(law::failure));
    CHECK(seen[1].text().find("the cable is out") != std::string::npos);
  }
  SUBCASE("one cell") {
    one_cell::shared shared;
    for (const auto& report : reports(3, [&](thread_communicator& c) { return one_cell(c, shared); }))
      CHECK_FALSE(report.conforms());
  }
  SUBCASE("misplaces a bundle") { check_caught<misplaces_a_bundle>(law::bundle); }
  SUBCASE("sums a bundle in another order") { check_caught<sums_a_bundle_in_another_order>(law::bundle); }
  SUBCASE("starts and forgets") { check_caught<starts_and_forgets>(law::nonblocking); }
  SUBCASE("waits in iall_reduce") { check_caught<waits_in_iall_reduce>(law::nonblocking); }
  SUBCASE("says done too early") { check_caught<says_done_too_early>(law::nonblocking); }
  SUBCASE("scatters backwards") { check_caught<scatters_backwards>(law::scatter_gather); }
  SUBCASE("gathers backwards") { check_caught<gathers_backwards>(law::scatter_gather); }
  SUBCASE("ignores names") { check_caught<ignores_names>(law::tags); }
  SUBCASE("sums before it compares names") { check_caught<sums_before_it_compares_names>(law::tags); }
}

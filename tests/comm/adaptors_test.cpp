// SPDX-License-Identifier: MIT
// checked, rank_ordered and delayed: what they give to a communicator that can do nothing but add.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <swiglu/comm/check.hpp>
#include <swiglu/comm/checked.hpp>
#include <swiglu/comm/delayed.hpp>
#include <swiglu/comm/launch.hpp>
#include <swiglu/comm/rank_ordered.hpp>

#include "comm/scenes.hpp"
#include "comm/support.hpp"

using namespace comm_test;
using swiglu::thread_communicator;

namespace {

/// The least that is a communicator, of floats and doubles. Adds in descending rank, beginning at +0: by no law is that
/// forbidden, and every bit that depends on it is another one.
class least {
 public:
  explicit least(thread_communicator& inner) : inner_(inner) {}
  least(const least&) = delete;
  least& operator=(const least&) = delete;
  void operator&() const = delete;

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  void all_reduce(std::span<float> x) { sum(x); }
  void all_reduce(std::span<double> x) { sum(x); }

 private:
  template <class T>
  void sum(std::span<T> x) {
    if (size() == 1 || x.empty()) return inner_.all_reduce(x);
    std::vector<T> all(x.size() * static_cast<std::size_t>(size()));
    inner_.all_gather(std::span<const T>(x), std::span<T>(all));
    std::ranges::fill(x, T{});
    for (std::size_t r = static_cast<std::size_t>(size()); r-- > 0;)
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += all[r * x.size() + i];
  }

  thread_communicator& inner_;
};

/// The same, and can be aborted.
struct least_abortable : least {
  explicit least_abortable(thread_communicator& inner) : least(inner), thread(inner) {}
  void abort(std::exception_ptr error) noexcept { thread.abort(std::move(error)); }
  thread_communicator& thread;
};

/// Counts its calls, and what they move.
struct counting {
  int rank() const { return inner.rank(); }
  int size() const { return inner.size(); }
  void all_reduce(std::span<float> x) {
    ++calls, elements += x.size();
    inner.all_reduce(x);
  }
  thread_communicator& inner;
  std::size_t calls = 0, elements = 0;
};

static_assert(swiglu::communicator<least, float> && swiglu::communicator<least, double>);
static_assert(!swiglu::bundled_communicator<least, float> && !swiglu::scatter_gather_communicator<least, float>);

using checked_least = swiglu::checked<least>;
static_assert(swiglu::tagged_communicator<checked_least, float>);
static_assert(!swiglu::nonblocking_communicator<checked_least, float>);
static_assert(!swiglu::scatter_gather_communicator<checked_least, float>);
static_assert(!swiglu::abortable_communicator<checked_least> && !swiglu::communicator<checked_least, int>);
using checked_threads = swiglu::checked<thread_communicator>;
static_assert(swiglu::nonblocking_communicator<checked_threads, float>);
static_assert(swiglu::scatter_gather_communicator<checked_threads, float>);
static_assert(swiglu::abortable_communicator<checked_threads>);
static_assert(swiglu::reduction_order_v<checked_threads> == swiglu::reduction_order::rank_order);
static_assert(swiglu::reduction_order_v<checked_least> == swiglu::reduction_order::unspecified);

using ordered_least = swiglu::rank_ordered<least>;
static_assert(swiglu::scatter_gather_communicator<ordered_least, double>);
static_assert(!swiglu::communicator<ordered_least, int> && !swiglu::abortable_communicator<ordered_least>);
static_assert(swiglu::reduction_order_v<ordered_least> == swiglu::reduction_order::rank_order);

using delayed_least = swiglu::delayed<least_abortable>;
static_assert(swiglu::nonblocking_communicator<delayed_least, float>);
static_assert(!swiglu::nonblocking_communicator<swiglu::delayed<least>, float>);  // nothing could end a transfer
static_assert(!swiglu::tagged_communicator<delayed_least, float>);
static_assert(swiglu::tagged_communicator<swiglu::delayed<thread_communicator>, float>);

/// Plays a scene on every rank; what they all complained about.
template <class Scene>
std::string played(int ranks, Scene scene, swiglu::thread_options options = patient()) {
  std::mutex mutex;
  std::string all;
  swiglu::run_ranks(
      ranks,
      [&](thread_communicator& c) {
        const std::string found = scene(c);
        const std::lock_guard lock(mutex);
        if (!found.empty()) all += "rank " + std::to_string(c.rank()) + ": " + found;
      },
      options);
  return all;
}

template <class C>
std::string laws(C&& c, swiglu::check_options options = {}) {
  return swiglu::check_communicator(c, options).text();
}

}  // namespace

TEST_CASE("the adaptors keep the laws, around the least communicator and around one that can do everything") {
  const time_limit limit("laws");
  for (const int ranks : {1, 3}) {
    CAPTURE(ranks);
    CHECK(played(ranks, [](thread_communicator& c) {
            least inner(c);
            return laws(swiglu::checked(inner));
          }) == "");
    CHECK(played(ranks, [](thread_communicator& c) { return laws(swiglu::checked(c)); }) == "");
    CHECK(played(ranks, [](thread_communicator& c) {
            least inner(c);
            swiglu::rank_ordered ordered(inner);
            return laws(ordered) + swiglu::check_communicator<double>(ordered).text() + laws(swiglu::checked(ordered));
          }) == "");
    CHECK(played(ranks, [](thread_communicator& c) {
            swiglu::rank_ordered ordered(c);
            return laws(ordered) + swiglu::check_communicator<int>(ordered).text();
          }) == "");
    CHECK(played(ranks, [](thread_communicator& c) {
            least_abortable inner(c);
            return laws(swiglu::delayed(inner, {.latency = 1us})) + laws(swiglu::delayed(c, {.latency = 1us}));
          }) == "");
  }
}

TEST_CASE("an abort goes through the adaptors") {
  const time_limit limit("abort");
  const auto aborts = [](auto make) {
    std::atomic<int> wrong{0};
    const outcome seen = outcome_of([&] {
      swiglu::run_ranks(
          3, [&](thread_communicator& c) { wrong += laws(make(c), {.abort = true}) != ""; }, patient());
    });
    CHECK(wrong == 0);
    CHECK(seen.says("check_communicator tries abort()"));
  };
  aborts([](thread_communicator& c) { return swiglu::checked(c); });
  aborts([](thread_communicator& c) { return swiglu::rank_ordered(c); });
  aborts([](thread_communicator& c) { return swiglu::delayed(c, {}); });
}

TEST_CASE("checked finds what threads find, and says the same") {
  const time_limit limit("mismatch");
  for (int ranks = 3; ranks <= 4; ++ranks) {
    CHECK(played(ranks, [](thread_communicator& c) {
            least inner(c);
            swiglu::checked checking(inner);
            return mismatches(checking);
          }) == "");
    CHECK(played(ranks, [](thread_communicator& c) {
            swiglu::checked checking(c);
            return mismatches(checking);
          }) == "");
  }
  // Word for word.
  const auto told = [](auto make) {
    return outcome_of([&] {
             swiglu::run_ranks(
                 2,
                 [&](thread_communicator& c) {
                   auto&& tried = make(c);
                   std::array<float, 4> gate{}, up{};
                   const std::array<std::span<float>, 2> spans{gate, up};
                   const std::array<std::string_view, 2> names{"gate", c.rank() == 0 ? "up" : "down"};
                   tried.all_reduce(std::span<const std::span<float>>(spans), std::span<const std::string_view>(names));
                 },
                 patient());
           })
        .text();
  };
  const std::string by_threads = told([](thread_communicator& c) -> thread_communicator& { return c; });
  CHECK(by_threads == told([](thread_communicator& c) { return swiglu::checked(c); }));
  CHECK(by_threads.find("rank 0 passes \"up\" as buffer 1, rank 1 passes \"down\" as buffer 1") != std::string::npos);
}

TEST_CASE("checked compares in one small call, and not at all when alone") {
  for (int ranks = 1; ranks <= 3; ++ranks)
    CHECK(played(ranks, [&](thread_communicator& c) {
            counting inner{c};
            swiglu::checked checking(inner);
            std::vector<float> v(1000, 1.0F);
            checking.all_reduce(std::span<float>(v));
            complaints found;
            found.unless(inner.calls == (ranks == 1 ? 1 : 2), "one more call");
            found.unless(inner.elements == 1000 + (ranks == 1 ? 0 : 33 * static_cast<std::size_t>(ranks)), "its size");
            return found.text();
          }) == "");
}

TEST_CASE("a request of checked: compared first, and a mismatch is thrown by wait() or test()") {
  const time_limit limit("checked request");
  for (const bool by_test : {true, false})
    CHECK(played(3, [&](thread_communicator& c) {
            swiglu::checked checking(c);
            complaints found;
            std::vector<float> v = terms(c.rank(), c.rank() == 1 ? 501 : 500);
            const outcome seen = outcome_of([&] {
              auto request = checking.iall_reduce(std::span<float>(v));
              if (by_test)
                while (!request.test()) std::this_thread::yield();
              request.wait();
            });
            found.unless(seen.is<swiglu::collective_mismatch>(), "no mismatch");
            found.unless(is_terms(v, c.rank()), "a buffer is changed");
            { const auto dropped = checking.iall_reduce(std::span<float>(v).first(500)); }  // its destructor waits
            found.unless(is_fold(std::vector<float>(v.begin(), v.begin() + 500), 3), "a dropped request is not done");
            auto request = checking.iall_reduce(std::span<float>(v).first(500));
            found.unless(outcome_of([&] { checking.all_reduce(std::span<float>(v)); }).is<std::logic_error>(),
                         "a call before a request's wait() is not refused");
            request.wait();
            return found.text();
          }) == "");
}

TEST_CASE("after a failure every call on a checked throws at once, whatever the communicator does") {
  struct unreliable {
    int rank() const { return 0; }
    int size() const { return 2; }
    void all_reduce(std::span<float>) {
      ++calls;
      throw std::runtime_error("the cable is out");
    }
    int calls = 0;
  };
  unreliable inner;
  swiglu::checked checking(inner);
  std::array<float, 2> x{};
  const auto sum = [&] { checking.all_reduce(std::span<float>(x)); };
  CHECK(outcome_of(sum).says("the cable is out"));
  const outcome second = outcome_of(sum);
  CHECK(second.is<swiglu::communicator_aborted>());
  CHECK(second.says("an earlier call failed"));
  CHECK(inner.calls == 1);
}

TEST_CASE("a local error of checked is thrown before anybody is met") {
  CHECK(played(2, [](thread_communicator& c) {
          swiglu::checked checking(c);
          complaints found;
          std::vector<float> v(100, 1.0F);
          const std::span<float> all(v);
          const auto refuses = [&](auto call) {
            found.unless(outcome_of(call).template is<std::invalid_argument>(), "not refused");
          };
          const std::array<std::span<float>, 2> overlapping{all.first(60), all.last(60)};
          const std::array<std::string_view, 1> names{"a"};
          refuses([&] { checking.all_reduce(std::span<const std::span<float>>(overlapping)); });
          refuses([&] { checking.all_reduce(std::span<const std::span<float>>(overlapping), names); });
          refuses([&] { checking.reduce_scatter(std::span<const float>(all.first(50)), all.last(26)); });
          checking.all_reduce(all);
          found.unless(v[99] == 2.0F, "wrong sum");
          return found.text();
        }) == "");
}

TEST_CASE("two threads in one checked") {
  const time_limit limit("two threads");
  const swiglu::thread_world world(2, patient());
  std::atomic<int> told{0};
  std::atomic<bool> tried{false};
  const auto seen = outcomes(2, [&](int rank) {
    thread_communicator c = world.data(rank);
    swiglu::checked checking(c);
    const auto sum = [&] {
      std::array<float, 3> x{};
      checking.all_reduce(std::span<float>(x));
    };
    if (rank == 1) {
      while (!tried) std::this_thread::yield();
      return sum();
    }
    const std::jthread first(sum);  // waits for rank 1
    std::this_thread::sleep_for(20ms);
    told += outcome_of(sum).says("entered by two threads");
    tried = true;
  });
  for (const outcome& o : seen) CHECK(o.text() == "");
  CHECK(told == 1);
}

TEST_CASE("rank_ordered gives the thread communicator's bits, whatever the transport does with them") {
  const time_limit limit("rank_ordered");
  for (int ranks = 1; ranks <= 5; ++ranks) {
    CHECK(played(ranks, [](thread_communicator& c) {
            least inner(c);
            swiglu::rank_ordered ordered(inner);
            return folds(ordered);
          }) == "");
    CHECK(played(ranks, [](thread_communicator& c) {
            swiglu::rank_ordered ordered(c);
            return folds(ordered);
          }) == "");
  }
  // And without it the bits are others.
  CHECK(played(3, [](thread_communicator& c) {
          least inner(c);
          return folds(inner);
        }).find("not the ascending fold") != std::string::npos);
}

TEST_CASE_TEMPLATE("numbers travel by their bits", T, float, double, int, std::int64_t, std::uint8_t, std::int8_t) {
  using pieces = swiglu::comm_detail::bit_pieces<T>;
  std::vector<T> values{T{0}, T{1}, std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest(),
                        std::numeric_limits<T>::min()};
  if constexpr (std::is_floating_point_v<T>)
    values.insert(values.end(), {T{-0.0}, std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::infinity(),
                                 -std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()});
  for (int i = 0; i < 1000; ++i) values.push_back(term<T>(i, 3));
  for (const T value : values) {
    std::array<T, pieces::count> parts;
    pieces::split(value, parts);
    for (T& part : parts) part = static_cast<T>(T{} + part + T{});  // what a sum over ranks does
    CHECK(same_bits(pieces::join(parts), value));
  }
}

TEST_CASE("a delayed call takes the time of the link, and a request hides it") {
  const time_limit limit("delayed");
  constexpr swiglu::link_speed link{.latency = 100ms, .bytes_per_second = 4e4};
  CHECK(link.time(0) == 100ms);
  CHECK(link.time(4000) == 200ms);
  CHECK_THROWS_AS((void)swiglu::link_speed{.bytes_per_second = 0}.time(1), std::invalid_argument);
  for (const auto& options : {patient(), patient(0)})
    CHECK(played(
              2,
              [&](thread_communicator& c) {
                swiglu::delayed slow(c, link);
                complaints found;
                std::vector<float> v = terms(c.rank(), 1000);
                auto start = clock::now();
                slow.all_reduce(std::span<float>(v));
                found.unless(milliseconds_since(start) >= 200, "all_reduce is faster than the link");
                found.unless(is_fold(v, 2), "wrong sum");

                v = terms(c.rank(), 1000);
                start = clock::now();
                auto request = slow.iall_reduce(std::span<float>(v));
                found.unless(milliseconds_since(start) < 100, "iall_reduce waits");
                found.unless(!request.test(), "complete at once");
                found.unless(outcome_of([&] { slow.all_reduce(std::span<float>(v)); }).is<std::logic_error>(),
                             "a call before a request's wait() is not refused");
                while (!request.test()) std::this_thread::sleep_for(1ms);
                found.unless(milliseconds_since(start) >= 200, "a request is faster than the link");
                request.wait();
                found.unless(is_fold(v, 2), "wrong sum of a request");

                // Work as long as the link takes: the wait that is left is none, or nearly.
                auto hidden = slow.iall_reduce(std::span<float>(v));
                std::this_thread::sleep_for(250ms);
                start = clock::now();
                hidden.wait();
                found.unless(milliseconds_since(start) < 100.0 * slowness, "nothing was hidden");
                return found.text();
              },
              options) == "");
}

TEST_CASE("a delayed request does not need its peers at work: the link has a thread of its own") {
  const time_limit limit("delayed, peer computes");
  CHECK(played(
            2,
            [](thread_communicator& c) {
              swiglu::delayed slow(c, {.latency = 5ms});
              std::vector<float> v(50000, 1.0F);  // summed in place: a slice by each rank
              complaints found;
              auto request = slow.iall_reduce(std::span<float>(v), "v");
              const auto start = clock::now();
              if (c.rank() == 1) std::this_thread::sleep_for(500ms);
              request.wait();
              found.unless(c.rank() == 1 || milliseconds_since(start) < 400, "waits for a peer that has started");
              found.unless(v[49999] == 2.0F, "wrong sum");
              return found.text();
            },
            patient(0)) == "");
}

TEST_CASE("a delayed request that dies in an exception, or fails") {
  const time_limit limit("delayed failures");
  const outcome thrown = outcome_of([] {
    swiglu::run_ranks(
        2,
        [](thread_communicator& c) {
          swiglu::delayed slow(c, {.latency = 1ms});
          std::vector<float> v(10);
          if (c.rank() == 1) std::this_thread::sleep_for(10ms);
          auto request = slow.iall_reduce(std::span<float>(v));
          if (c.rank() == 0) throw std::domain_error("with a request");
          request.wait();
          slow.all_reduce(std::span<float>(v));
        },
        patient());
  });
  CHECK(thrown.is<std::domain_error>());
  const outcome differs = outcome_of([] {
    swiglu::run_ranks(
        2,
        [](thread_communicator& c) {
          swiglu::delayed slow(c, {});
          std::vector<float> v(c.rank() == 0 ? 10 : 11);
          auto request = slow.iall_reduce(std::span<float>(v), "v");
          request.wait();
        },
        patient());
  });
  CHECK(differs.is<swiglu::collective_mismatch>());
}

// SPDX-License-Identifier: MIT
// Ranks that are threads: no rank hangs because another threw, left, stalled or called something else.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <swiglu/comm/launch.hpp>

#include "comm/scenes.hpp"
#include "comm/support.hpp"

using namespace comm_test;
using swiglu::thread_communicator;
using swiglu::thread_mesh;
using swiglu::thread_world;

namespace {

struct root_cause : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr std::array<std::size_t, 2> copied_or_in_place{1 << 20, 0};

void sum(thread_communicator& c, std::size_t count = 64) {
  std::vector<float> v(count, 1.0F);
  c.all_reduce(std::span<float>(v));
}

/// Runs a scene until the slowest of the released ranks was out in time. That they are woken, and do not wait for a
/// deadline, is what is to be shown; a busy machine may delay one run.
template <class Scene>
double quickest_release(Scene scene) {
  double best = 1e9;
  for (int attempt = 0; attempt < 5 && best > 50.0; ++attempt) best = std::min(best, scene());
  return best;
}

}  // namespace

TEST_CASE("a rank that throws outside a collective frees the others on both axes, and its error is the one rethrown") {
  const time_limit limit("throw outside");
  for (int thrower = 0; thrower < 4; ++thrower)
    for (const std::size_t copy_limit : copied_or_in_place) {
      std::atomic<int> aborted{0}, wrong_cause{0};
      const auto scene = [&] {
        std::atomic<clock::time_point> thrown{};
        const outcome seen = outcome_of([&] {
          swiglu::run_ranks(
              2, 2,
              [&](thread_mesh& axes) {
                sum(axes.data);
                sum(axes.tensor);
                if (axes.rank() == thrower) {
                  std::this_thread::sleep_for(20ms);  // the others wait by now
                  thrown = clock::now();
                  throw root_cause("rank " + std::to_string(thrower) + " has no memory");
                }
                try {
                  // Half of the others wait for the thrower, the other half for those.
                  sum(axes.rank() % 2 == thrower % 2 ? axes.data : axes.tensor, 5000);
                  sum(axes.data, 5000);
                  sum(axes.tensor, 5000);
                } catch (const swiglu::communicator_aborted& e) {
                  ++aborted;
                  wrong_cause += !outcome{e.cause(), {}}.is<root_cause>();
                  throw;
                }
              },
              patient(copy_limit));
        });
        CHECK(seen.is<root_cause>());
        CHECK(seen.says("rank " + std::to_string(thrower) + " has no memory"));
        return std::chrono::duration<double, std::milli>(seen.at - thrown.load()).count();
      };
      CHECK(quickest_release(scene) < 100.0);
      CHECK(aborted % 3 == 0);
      CHECK(wrong_cause == 0);
    }
}

TEST_CASE("a rank that throws before, between or inside the collectives of either axis: its peers are out in 100 ms") {
  const time_limit limit("throw anywhere");
  enum moment { before, between, inside };
  for (const moment when : {before, between, inside})
    for (const bool on_data : {true, false})
      for (const std::size_t copy_limit : copied_or_in_place) {
        const auto scene = [&] {
          std::atomic<clock::time_point> thrown{};
          const outcome seen = outcome_of([&] {
            swiglu::run_ranks(
                2, 2,
                [&](thread_mesh& axes) {
                  thread_communicator& axis = on_data ? axes.data : axes.tensor;
                  const auto fail = [&] {
                    std::this_thread::sleep_for(20ms);  // the others wait by now
                    thrown = clock::now();
                    throw root_cause("here");
                  };
                  const bool me = axes.rank() == 1;
                  if (me && when == before) fail();
                  sum(axes.data), sum(axes.tensor);
                  if (me && when == between) fail();
                  std::vector<float> v(5000, 1.0F);
                  auto request = axis.iall_reduce(std::span<float>(v));
                  if (me && when == inside) fail();
                  request.wait();
                  sum(axes.data), sum(axes.tensor);
                },
                patient(copy_limit));
          });
          CHECK(seen.is<root_cause>());
          return std::chrono::duration<double, std::milli>(seen.at - thrown.load()).count();
        };
        CHECK(quickest_release(scene) < 100.0);
      }
}

TEST_CASE("a rank that throws before its first collective") {
  const time_limit limit("throw before");
  const outcome seen = outcome_of([] {
    swiglu::run_ranks(
        3,
        [](thread_communicator& c) {
          if (c.rank() == 1) throw root_cause("at once");
          sum(c);
        },
        patient());
  });
  CHECK(seen.is<root_cause>());
}

TEST_CASE("whatever is thrown is rethrown") {
  const time_limit limit("throw int");
  int caught = 0;
  try {
    swiglu::run_ranks(
        2,
        [](thread_communicator& c) {
          if (c.rank() == 0) throw 42;
          sum(c);
        },
        patient());
  } catch (int value) {
    caught = value;
  }
  CHECK(caught == 42);
}

TEST_CASE(
    "a rank that throws between a request and its wait: its buffer is free at once, its error is the root cause") {
  const time_limit limit("throw with a request");
  for (const std::size_t copy_limit : copied_or_in_place)
    for (const bool peers_are_there : {true, false})
      for (int round = 0; round < 20; ++round) {
        const outcome seen = outcome_of([&] {
          swiglu::run_ranks(
              2, 2,
              [&](thread_mesh& axes) {
                auto buffer = std::make_unique<std::vector<float>>(40000, 1.0F);
                if (axes.rank() == 2) {
                  auto request = axes.tensor.iall_reduce(std::span<float>(*buffer));
                  if (peers_are_there) std::this_thread::sleep_for(1ms);
                  throw root_cause("with a request");
                }
                if (!peers_are_there) std::this_thread::sleep_for(1ms);
                auto request = axes.tensor.iall_reduce(std::span<float>(*buffer));
                sum(axes.data, 5000);
                request.wait();
              },
              patient(copy_limit));
        });
        CHECK(seen.is<root_cause>());
      }
}

TEST_CASE("a request that is dropped, and fails, does not fail silently") {
  const time_limit limit("dropped request");
  std::atomic<int> refused{0};
  const outcome seen = outcome_of([&] {
    swiglu::run_ranks(
        2,
        [&](thread_communicator& c) {
          std::vector<float> v(c.rank() == 0 ? 10 : 11);
          { const auto request = c.iall_reduce(std::span<float>(v)); }  // a mismatch, which has no way out of here
          refused += outcome_of([&] { sum(c); }).is<swiglu::communicator_aborted>();
        },
        patient());
  });
  CHECK(seen.is<swiglu::collective_mismatch>());
  CHECK(refused == 2);
}

TEST_CASE("a rank that leaves early is named") {
  const time_limit limit("early leaver");
  for (const std::size_t copy_limit : copied_or_in_place) {
    const thread_world world(4, patient(copy_limit));
    const auto seen = outcomes(4, [&](int rank) {
      thread_communicator c = world.data(rank);
      sum(c);
      if (rank == 2) return;
      sum(c);
    });
    for (const int rank : {0, 1, 3}) {
      const outcome& o = seen[static_cast<std::size_t>(rank)];
      CHECK(o.is<swiglu::peer_departed>());
      CHECK(o.says("rank 2 has departed"));
      try {
        std::rethrow_exception(o.error);
      } catch (const swiglu::peer_departed& e) {
        CHECK(e.rank() == 2);
      }
    }
    CHECK(seen[2].error == nullptr);
    CHECK(outcome{world.error(), {}}.is<swiglu::peer_departed>());
  }
}

TEST_CASE("ranks that wait on the other axis for a rank that waits for a departed one are freed too") {
  const time_limit limit("departed, other axis");
  const outcome seen = outcome_of([] {
    swiglu::run_ranks(
        2, 2,
        [](thread_mesh& axes) {
          if (axes.rank() == 0) return;
          if (axes.rank() == 1) sum(axes.tensor);  // with rank 0, which is gone
          if (axes.rank() == 3) sum(axes.data);    // with rank 1
          if (axes.rank() == 2) sum(axes.tensor);  // with rank 3
        },
        patient());
  });
  CHECK(seen.is<swiglu::peer_departed>());
  CHECK(seen.says("rank 0 has departed"));
}

TEST_CASE("finishing at different times is not a failure") {
  const time_limit limit("no departure");
  for (int round = 0; round < 50; ++round)
    swiglu::run_ranks(
        2, 2,
        [&](thread_mesh& axes) {
          sum(axes.data, 10);
          sum(axes.tensor, 50000);
          if (axes.rank() == round % 4) std::this_thread::sleep_for(500us);
        },
        patient());
}

TEST_CASE("a rank that sleeps for 200 ms is waited for, and reported") {
  const time_limit limit("sleeper");
  std::mutex mutex;
  std::string reports;
  auto options = patient();
  options.warn_after = 60ms;
  std::atomic<bool> warned{false};
  options.warn = [&](std::string_view report) {
    const std::lock_guard lock(mutex);
    reports.append(report).append("\n");
    if (report.find("arrived: rank 0 (rank 1 of the mesh)") != std::string_view::npos) warned = true;
  };
  swiglu::run_ranks(
      2, 2,
      [&](thread_mesh& axes) {
        sum(axes.tensor);
        if (axes.rank() == 3) {
          std::this_thread::sleep_for(200ms);
          while (!warned) std::this_thread::sleep_for(1ms);  // on a busy machine the others may be later than that
        }
        sum(axes.data);
        sum(axes.data);
      },
      options);
  CHECK(reports.find("data all_reduce #1 of 64 float32") != std::string::npos);
  CHECK(reports.find("arrived: rank 0 (rank 1 of the mesh)") != std::string::npos);
  CHECK(reports.find("missing: rank 1 (rank 3 of the mesh) is outside, after tensor all_reduce #1") !=
        std::string::npos);
  CHECK(reports.find("arrived: rank 0 (rank 1 of the mesh)") == reports.rfind("arrived: rank 0 (rank 1 of the mesh)"));
}

TEST_CASE("an exception from the warning is an error of that rank") {
  const time_limit limit("warn throws");
  auto options = patient();
  options.warn_after = 5ms;
  std::atomic<bool> warned{false};
  options.warn = [&](std::string_view) {
    warned = true;
    throw root_cause("enough");
  };
  const outcome seen = outcome_of([&] {
    swiglu::run_ranks(
        3,
        [&](thread_communicator& c) {
          while (c.rank() == 1 && !warned) std::this_thread::sleep_for(1ms);  // on a busy machine that may take a while
          sum(c, 5000);
        },
        options);
  });
  CHECK(seen.is<root_cause>());
}

TEST_CASE("a rank that never comes: the deadline, with a report") {
  const time_limit limit("deadline");
  for (const std::size_t copy_limit : copied_or_in_place) {
    const thread_world world(3, {.timeout = 300ms, .copy_limit = copy_limit});
    std::atomic<bool> over{false};
    const auto start = clock::now();
    const auto seen = outcomes(4, [&](int rank) {
      if (rank == 3) {  // not a rank: it holds back rank 1
        while (!world.error()) std::this_thread::sleep_for(1ms);
        over = true;
        return;
      }
      thread_communicator c = world.data(rank);
      sum(c);
      while (rank == 1 && !over) std::this_thread::sleep_for(1ms);
      sum(c);
    });
    CHECK(milliseconds_since(start) >= 295.0);
    CHECK(milliseconds_since(start) < 2000.0 * slowness);
    CHECK((seen[0].is<swiglu::collective_timeout>() || seen[2].is<swiglu::collective_timeout>()));
    CHECK(seen[1].is<swiglu::communicator_aborted>());  // when it comes at last, it is refused
    const outcome cause{world.error(), {}};
    CHECK(cause.is<swiglu::collective_timeout>());
    CHECK(cause.says("all_reduce #2 of 64 float32"));
    CHECK(cause.says("arrived: rank 0, rank 2; missing: rank 1 is outside, after all_reduce #1"));
  }
}

TEST_CASE("a rank that never even joined is reported as that") {
  const time_limit limit("never joined");
  const thread_world world(2, {.timeout = 20ms});
  thread_communicator c = world.data(0);
  const outcome seen = outcome_of([&] { sum(c); });
  CHECK(seen.is<swiglu::collective_timeout>());
  CHECK(seen.says("missing: rank 1 has never joined"));
}

TEST_CASE("calls that differ: every rank throws the same, no buffer is changed, and the ranks go on together") {
  const time_limit limit("mismatch");
  for (const int ranks : {3, 4})
    for (const std::size_t copy_limit : {std::size_t{1} << 20, std::size_t{0}, std::size_t{1000}}) {
      std::mutex mutex;
      std::string found;
      swiglu::run_ranks(
          ranks,
          [&](thread_communicator& c) {
            const std::string mine = mismatches(c);
            const std::lock_guard lock(mutex);
            found += mine;
          },
          patient(copy_limit));
      CHECK(found == "");
    }
}

TEST_CASE("after an abort every call throws at once, on both axes") {
  const time_limit limit("abort");
  std::atomic<int> refused{0};
  const outcome seen = outcome_of([&] {
    swiglu::run_ranks(
        2, 2,
        [&](thread_mesh& axes) {
          if (axes.rank() == 1) axes.data.abort(std::make_exception_ptr(root_cause("that is all")));
          const auto refuses = [&](auto call) {
            refused += outcome_of(call).template is<swiglu::communicator_aborted>();
          };
          if (axes.rank() != 1) refuses([&] { sum(axes.tensor), sum(axes.data), sum(axes.tensor), sum(axes.data); });
          std::vector<float> v(8), w(16);
          for (thread_communicator* c : {&axes.data, &axes.tensor}) {
            refuses([&] { sum(*c); });
            refuses([&] { (void)c->iall_reduce(std::span<float>(v)); });
            refuses([&] { c->reduce_scatter(std::span<const float>(w), std::span<float>(v)); });
            refuses([&] { c->all_gather(std::span<const float>(v), std::span<float>(w)); });
          }
          axes.abort(nullptr);  // any number of times
        },
        patient());
  });
  CHECK(seen.is<root_cause>());  // although no rank threw
  CHECK(refused == 3 + 4 * 8);
}

TEST_CASE("abort from outside, and by a stop token, wakes ranks that wait") {
  const time_limit limit("abort from outside");
  std::stop_source source;
  for (const bool by_token : {true, false}) {
    std::atomic<clock::time_point> asked{};
    std::vector<outcome> seen;
    const auto scene = [&] {
      source = std::stop_source();
      auto options = patient();
      options.stop = source.get_token();
      const thread_world world(3, options);
      seen = outcomes(4, [&](int rank) {
        if (rank == 3) {  // not a rank
          std::this_thread::sleep_for(20ms);
          asked = clock::now();
          if (by_token)
            source.request_stop();
          else
            world.abort(std::make_exception_ptr(root_cause("from outside")));
          return;
        }
        thread_communicator c = world.data(rank);
        while (rank == 1 && !world.error()) std::this_thread::sleep_for(1ms);
        sum(c);
      });
      const outcome cause{world.error(), {}};
      CHECK((by_token ? cause.is<swiglu::collective_cancelled>() : cause.is<root_cause>()));
      return std::chrono::duration<double, std::milli>(std::max(seen[0].at, seen[2].at) - asked.load()).count();
    };
    CHECK(quickest_release(scene) < 100.0);
    for (std::size_t rank = 0; rank < 3; ++rank) CHECK(seen[rank].is<swiglu::communicator_aborted>());
  }
  // A stop requested beforehand.
  CHECK(outcome_of([&] {
          swiglu::run_ranks(2, [](thread_communicator& c) { sum(c); }, {.stop = source.get_token()});
        }).is<root_cause>() == false);
  source.request_stop();
  CHECK(outcome_of([&] {
          swiglu::run_ranks(2, [](thread_communicator& c) { sum(c); }, {.stop = source.get_token()});
        }).is<swiglu::collective_cancelled>());
}

TEST_CASE("one call at a time: the second thread and the call before a wait are told") {
  const time_limit limit("one call");
  const thread_world world(2, patient());
  std::atomic<int> told{0};
  std::atomic<bool> tried{false};
  const auto seen = outcomes(2, [&](int rank) {
    thread_communicator c = world.data(rank);
    if (rank == 1) {
      while (!tried) std::this_thread::yield();
      sum(c);
    } else {
      std::jthread first([&] { sum(c); });  // waits for rank 1
      std::this_thread::sleep_for(20ms);
      told += outcome_of([&] { sum(c); }).is<std::logic_error>();
      tried = true;
    }
    std::vector<float> v(8, 1.0F);
    auto request = c.iall_reduce(std::span<float>(v));
    told += outcome_of([&] { sum(c); }).says("before a request's wait()");
    request.wait();
    told += v[3] == 2.0F;
  });
  for (const outcome& o : seen) CHECK(o.text() == "");
  CHECK(told == 5);
}

TEST_CASE("communicators destroyed while an exception unwinds: an abort, not a departure") {
  const time_limit limit("unwinding");
  const thread_world world(2, patient());
  const auto seen = outcomes(2, [&](int rank) {
    thread_communicator c = world.data(rank);
    sum(c);
    if (rank == 0) throw root_cause("in a thread of the user's");
    sum(c);
  });
  CHECK(seen[0].is<root_cause>());
  CHECK(seen[1].is<swiglu::communicator_aborted>());
  CHECK(seen[1].says("aborted by rank 0, which gave no reason"));
}

TEST_CASE("a local error is thrown before anybody is met") {
  const time_limit limit("local errors");
  std::atomic<int> told{0};
  swiglu::run_ranks(
      2,
      [&](thread_communicator& c) {
        std::vector<float> v(100, 1.0F);
        const std::span<float> all(v);
        const auto refuses = [&](auto call) { told += outcome_of(call).template is<std::invalid_argument>(); };
        const std::array<std::span<float>, 2> overlapping{all.first(60), all.last(60)};
        const std::array<std::string_view, 3> names{"a", "b", "c"};
        const std::array<std::span<float>, 2> bundle{all.first(50), all.last(50)};
        refuses([&] { c.all_reduce(std::span<const std::span<float>>(overlapping)); });
        refuses([&] { c.all_reduce(std::span<const std::span<float>>(bundle), names); });
        refuses([&] { c.reduce_scatter(std::span<const float>(all.first(50)), all.last(26)); });
        refuses([&] { c.reduce_scatter(std::span<const float>(all.first(50)), all.last(51)); });
        refuses([&] { c.all_gather(std::span<const float>(all.first(20)), all.last(41)); });
        refuses([&] { c.all_gather(std::span<const float>(all.first(50)), all.first(100)); });
        c.all_reduce(std::span<const std::span<float>>(bundle), std::span<const std::string_view>(names).first(2));
        told += v[99] == 2.0F;
      },
      patient());
  CHECK(told == 14);
}

TEST_CASE("two ranks that pass the same memory are told") {
  const time_limit limit("shared memory");
  std::vector<float> shared(50000);
  const outcome seen = outcome_of([&] {
    swiglu::run_ranks(
        3, [&](thread_communicator& c) { c.all_reduce(std::span<float>(shared)); }, patient());
  });
  CHECK(seen.is<std::invalid_argument>());
  CHECK(seen.says("overlap"));
}

TEST_CASE("buffers that die in an abort are not touched by anybody afterwards") {
  // To be run under a sanitiser: ranks sum large buffers, somebody aborts at a random moment, everybody frees at once.
  const time_limit limit("abort storm");
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const thread_world world(4, patient(round % 4 == 0 ? 1U << 20 : 0));
    const auto delay = std::chrono::microseconds(random() % 2000);
    const bool with_requests = round % 2 == 0;
    const auto seen = outcomes(5, [&](int rank) {
      if (rank == 4) {  // not a rank
        std::this_thread::sleep_for(delay);
        world.abort(std::make_exception_ptr(root_cause("now")));
        return;
      }
      thread_communicator c = world.data(rank);
      for (;;) {
        std::vector<float> v(20000 + 64, 1.0F);
        if (with_requests) {
          auto request = c.iall_reduce(std::span<float>(v));
          if (rank == round % 3) std::this_thread::yield();
          request.wait();
        } else {
          c.all_reduce(std::span<float>(v));
        }
        if (v[77] != 4.0F) throw std::logic_error("wrong sum");
      }
    });
    for (std::size_t rank = 0; rank < 4; ++rank) CHECK(seen[rank].is<swiglu::communicator_aborted>());
  }
}

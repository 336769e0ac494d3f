// SPDX-License-Identifier: MIT
// Ranks that are threads: a mesh in which nobody can go on is thrown out at once, without a deadline; a mesh in which
// somebody can is left alone.

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <exception>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <swiglu/comm/launch.hpp>

#include "comm/support.hpp"

using namespace comm_test;
using swiglu::thread_communicator;
using swiglu::thread_mesh;
using swiglu::thread_world;

namespace {

void sum(thread_communicator& c, std::size_t count = 64) {
  std::vector<float> v(count, 1.0F);
  c.all_reduce(std::span<float>(v));
  if (count != 0 && v[count - 1] != static_cast<float>(c.size())) throw std::logic_error("wrong sum");
}

void start_and_wait(thread_communicator& c, std::size_t count = 64) {
  std::vector<float> v(count, 1.0F);
  auto request = c.iall_reduce(std::span<float>(v));
  request.wait();
}

/// Runs fn(data end, tensor end) on every rank of a mesh that has no deadline, and checks that it ends in a deadlock,
/// of which every rank in a call is told all `places`.
template <class Fn>
void check_deadlock(int data, int tensor, const std::vector<std::string_view>& places, Fn fn) {
  const thread_world world(data, tensor);
  const std::vector<outcome> seen = outcomes(world.size(), [&](int rank) {
    thread_communicator data_end = world.data(rank), tensor_end = world.tensor(rank);
    fn(rank, data_end, tensor_end);
  });
  const outcome cause{world.error(), {}};
  CHECK(cause.is<swiglu::collective_deadlock>());
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    CAPTURE(rank);
    const std::string place = "rank " + std::to_string(rank) + " " + std::string(places[rank]);
    CHECK(cause.says(place));
    if (places[rank] == "has departed") {
      CHECK(seen[rank].text() == "");
      continue;
    }
    CHECK(seen[rank].is<swiglu::communicator_aborted>());
    for (std::size_t other = 0; other < places.size(); ++other)
      CHECK(seen[rank].says("rank " + std::to_string(other) + " " + std::string(places[other])));
  }
}

}  // namespace

TEST_CASE("half of a mesh calls one axis, half the other: everybody is told who waits where") {
  const time_limit limit("cycle", 60s);
  const std::vector<std::string_view> places{"waits in data all_reduce #1", "waits in tensor all_reduce #1",
                                             "waits in tensor all_reduce #1", "waits in data all_reduce #1"};
  for (int round = 0; round < 50; ++round) {
    const std::size_t count = round % 2 == 0 ? 64 : 20000;  // copied, and in place
    // 0 waits for 2, 2 for 3, 3 for 1, 1 for 0. Each rank is the last to come in turn, or they come all at once.
    check_deadlock(2, 2, places, [&](int rank, thread_communicator& data, thread_communicator& tensor) {
      if (rank == round % 5) std::this_thread::sleep_for(2ms);
      sum(rank == 0 || rank == 3 ? data : tensor, count);
    });
    check_deadlock(2, 2, places, [&](int rank, thread_communicator& data, thread_communicator& tensor) {
      if (rank == round % 5) std::this_thread::sleep_for(2ms);
      start_and_wait(rank == 0 || rank == 3 ? data : tensor, count);
    });
  }
}

TEST_CASE("what run_ranks throws is the deadlock, also long before a deadline") {
  const time_limit limit("run_ranks", 60s);
  for (const swiglu::thread_options& options : {swiglu::thread_options{}, patient()}) {
    const auto start = clock::now();
    const outcome seen = outcome_of([&] {
      swiglu::run_ranks(
          2, 2, [](thread_mesh& axes) { sum(axes.rank() == 0 || axes.rank() == 3 ? axes.data : axes.tensor); },
          options);
    });
    CHECK(seen.is<swiglu::collective_deadlock>());
    CHECK(milliseconds_since(start) < 5000.0 * slowness);
  }
}

TEST_CASE("a warning does not keep a deadlock from being found") {
  const time_limit limit("warning", 60s);
  std::atomic<int> warnings{0};
  swiglu::thread_options options;
  options.warn_after = 1ms;
  options.warn = [&](std::string_view) {
    ++warnings;
    std::this_thread::sleep_for(10ms);
  };
  const outcome seen = outcome_of([&] {
    swiglu::run_ranks(
        2, 2,
        [](thread_mesh& axes) {
          std::this_thread::sleep_for(3ms * axes.rank());
          sum(axes.rank() == 0 || axes.rank() == 3 ? axes.data : axes.tensor);
        },
        options);
  });
  CHECK(seen.is<swiglu::collective_deadlock>());
  CHECK(warnings > 0);
}

TEST_CASE("a request that was started does not help whoever waits for what comes after it") {
  const time_limit limit("started", 60s);
  // Everybody starts on the tensor axis. Ranks 1 and 2 wait for that, which in place needs their peers' part of the
  // sum.
  const std::vector<std::string_view> places{"waits in data all_reduce #1", "waits in tensor all_reduce #1",
                                             "waits in tensor all_reduce #1", "waits in data all_reduce #1"};
  check_deadlock(2, 2, places, [](int rank, thread_communicator& data, thread_communicator& tensor) {
    std::vector<float> v(20000, 1.0F);
    auto request = tensor.iall_reduce(std::span<float>(v));
    if (rank == 0 || rank == 3) sum(data);
    request.wait();
  });
}

TEST_CASE("a rank that has left, and for which nobody waits, does not hide a deadlock of the others") {
  const time_limit limit("departed", 60s);
  const std::string_view data_1 = "waits in data all_reduce #1", tensor_1 = "waits in tensor all_reduce #1";
  const std::vector<std::string_view> places{data_1,   tensor_1, tensor_1, tensor_1,      data_1,
                                             tensor_1, data_1,   data_1,   "has departed"};
  for (const auto delay : {0ms, 20ms})  // it leaves while the others come, and as the last
    check_deadlock(3, 3, places, [&](int rank, thread_communicator& data, thread_communicator& tensor) {
      if (rank == 8) return std::this_thread::sleep_for(delay);
      sum(places[static_cast<std::size_t>(rank)] == data_1 ? data : tensor);
    });
}

TEST_CASE("while one rank computes nothing is decided, however many wait") {
  const time_limit limit("one computes", 60s);
  for (int busy = 0; busy < 4; ++busy)
    swiglu::run_ranks(2, 2, [&](thread_mesh& axes) {
      // The three others wait for it, or for those who do, on both axes.
      if (axes.rank() == busy) std::this_thread::sleep_for(30ms);
      sum(axes.data);
      sum(axes.tensor);
      std::vector<float> v(20000, 1.0F);
      auto request = axes.tensor.iall_reduce(std::span<float>(v));
      if (axes.rank() == busy) {
        const auto until = clock::now() + 30ms;
        while (clock::now() < until) (void)request.test();
      }
      sum(axes.data, 20000);
      request.wait();
    });
}

TEST_CASE("ranks that drive an axis from a second thread are at work for as long as one of the two is") {
  const time_limit limit("two threads", 60s);
  swiglu::run_ranks(2, 2, [](thread_mesh& axes) {
    const bool data_first = axes.rank() == 0 || axes.rank() == 3;
    std::exception_ptr error;
    sum(axes.tensor);
    {
      const std::jthread helper([&] {
        try {
          sum(axes.data);
          if (!data_first) std::this_thread::sleep_for(30ms);
          sum(axes.data);
        } catch (...) {
          error = std::current_exception();
        }
      });
      if (data_first) std::this_thread::sleep_for(30ms);  // meanwhile every rank has a thread that waits
      sum(axes.tensor);
    }
    if (error) std::rethrow_exception(error);
  });
}

TEST_CASE("correct programs raise no alarm, however the ranks are scheduled") {
  const time_limit limit("no alarm", 300s);
  for (const auto& [data, tensor] : {std::array{2, 2}, std::array{2, 4}, std::array{3, 2}}) {
    for (unsigned seed = 0; seed < 4; ++seed)
      swiglu::run_ranks(data, tensor, [&](thread_mesh& axes) {
        std::mt19937 program(seed);                                          // the same on all ranks
        std::minstd_rand dawdle(static_cast<unsigned>(axes.rank()) + seed);  // differs
        for (int i = 0; i < 500; ++i) {
          thread_communicator& first = program() % 2 == 0 ? axes.data : axes.tensor;
          thread_communicator& second = &first == &axes.data ? axes.tensor : axes.data;
          std::vector<float> v(program() % 4 == 0 ? 6000 : 10, 1.0F);
          if (program() % 2 == 0) {
            auto request = first.iall_reduce(std::span<float>(v));
            if (program() % 2 == 0) sum(second, program() % 50);
            request.wait();
          } else {
            first.all_reduce(std::span<float>(v));
          }
          if (v[0] != static_cast<float>(first.size())) throw std::logic_error("wrong sum");
          // About as long as a rank looks before it sleeps.
          if (dawdle() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(dawdle() % 60));
        }
      });
  }
}

TEST_CASE("a rank that sleeps on when its meeting has been held is not stuck") {
  using swiglu::comm_detail::abort_state, swiglu::comm_detail::deadlock_watch, swiglu::comm_detail::meeting;
  abort_state errors(2);
  meeting data(2, false, errors), tensor(2, false, errors);
  deadlock_watch watch(errors);
  std::optional<deadlock_watch::blocked> first, second;
  first.emplace(watch, watch.at(0, 0), data, data.arrive(0));
  CHECK_FALSE(errors.aborted());  // rank 1 has not come
  data.arrive(1);                 // it has, and rank 0 is not awake yet
  second.emplace(watch, watch.at(1, 1), tensor, tensor.arrive(1));
  CHECK_FALSE(errors.aborted());
  first.reset();
  CHECK_FALSE(errors.aborted());  // rank 0 could go to the tensor axis now
  first.emplace(watch, watch.at(0, 0), data, data.arrive(0));
  CHECK(errors.aborted());
  CHECK(outcome{errors.cause(), {}}.is<swiglu::collective_deadlock>());
}

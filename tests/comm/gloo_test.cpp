// SPDX-License-Identifier: MIT
// Ranks that talk through Gloo: four threads of one process, over the loopback interface.

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include <swiglu/comm/check.hpp>
#include <swiglu/comm/checked.hpp>
#include <swiglu/comm/gloo.hpp>
#include <swiglu/comm/rank_ordered.hpp>

#include "comm/layer_scene.hpp"
#include "comm/scenes.hpp"
#include "comm/support.hpp"

using namespace comm_test;
using swiglu::gloo_communicator;

namespace {

static_assert(swiglu::scatter_gather_communicator<gloo_communicator, float>);
static_assert(swiglu::communicator<gloo_communicator, double> && swiglu::communicator<gloo_communicator, int>);
static_assert(!swiglu::communicator<gloo_communicator, std::string>);
static_assert(swiglu::abortable_communicator<gloo_communicator>);

std::shared_ptr<gloo::transport::Device> loopback() {
  gloo::transport::tcp::attr where("127.0.0.1");
  return gloo::transport::tcp::CreateDevice(where);
}

/// What each of the ranks threw. fn(communicator) on a thread per rank, all connected.
template <class Fn>
std::vector<outcome> ranks(int count, Fn fn, std::chrono::milliseconds timeout = 60s) {
  gloo::rendezvous::HashStore store;
  return outcomes(count, [&](int rank) {
    gloo_communicator c(swiglu::connect_gloo(store, loopback(), "test", rank, count), timeout);
    fn(c);
  });
}

/// What the ranks found wrong in a scene that returns it, errors included.
template <class Scene>
std::string played(int count, Scene scene) {
  std::mutex mutex;
  std::string all;
  for (const outcome& o : ranks(count, [&](gloo_communicator& c) {
         const std::string found = scene(c);
         const std::lock_guard lock(mutex);
         if (!found.empty()) all += "rank " + std::to_string(c.rank()) + ": " + found;
       }))
    all += o.text();
  return all;
}

template <class C>
void sum(C& c, std::size_t count = 64) {
  std::vector<float> v(count, 1.0F);
  c.all_reduce(std::span<float>(v));
  if (count > 0 && v.back() != static_cast<float>(c.size())) throw std::logic_error("wrong sum");
}

}  // namespace

TEST_CASE("the laws, of the communicator and of the adaptors around it") {
  const time_limit limit("laws");
  CHECK(played(1, [](gloo_communicator& c) { return swiglu::check_communicator(c).text(); }) == "");
  CHECK(played(3, [](gloo_communicator& c) { return swiglu::check_communicator(c, {.abort = true}).text(); }) == "");
  CHECK(played(2, [](gloo_communicator& c) {
          swiglu::rank_ordered ordered(c);
          swiglu::checked checking(ordered);
          return swiglu::check_communicator<double>(checking).text();
        }) == "");
}

TEST_CASE("rank_ordered has the bits of threads") {
  const time_limit limit("rank_ordered");
  for (const int count : {1, 2, 4})
    CHECK(played(count, [](gloo_communicator& c) {
            swiglu::rank_ordered ordered(c);
            return folds(ordered);
          }) == "");
}

TEST_CASE("checked: calls that differ") {
  const time_limit limit("mismatch");
  CHECK(played(3, [](gloo_communicator& c) {
          swiglu::checked checking(c);
          return mismatches(checking);
        }) == "");
}

TEST_CASE("many tiny sums, by ranks that dawdle") {
  const time_limit limit("tiny sums");
  CHECK(played(4, [](gloo_communicator& c) { return tiny_sums(c, 2000); }) == "");
}

TEST_CASE("the layer on every mesh of four ranks or fewer") {
  const time_limit limit("mesh");
  for (const auto& [d, t] :
       {std::array{1, 1}, std::array{2, 1}, std::array{1, 2}, std::array{2, 2}, std::array{4, 1}, std::array{1, 4}}) {
    gloo::rendezvous::HashStore store;
    std::atomic<int> wrong_places{0};
    std::vector<std::string> found(static_cast<std::size_t>(2 * d * t));
    const auto seen = outcomes(d * t, [&, d = d, t = t](int rank) {
      const std::shared_ptr<gloo::transport::Device> device = loopback();
      // [gloo]
      swiglu::gloo_mesh ranks(store, device, rank, d, t, std::chrono::seconds(30));  // no call waits longer
      auto axes = ranks.axes();
      // [/gloo]
      wrong_places += axes.rank() != rank || axes.data.size() != d || axes.tensor.size() != t;
      swiglu::rank_ordered data(axes.data), tensor(axes.tensor);
      const auto i = static_cast<std::size_t>(2 * rank);
      found[i] = layer_on_mesh(any_communicator(axes.data), any_communicator(axes.tensor), false);
      found[i + 1] = layer_on_mesh(any_communicator(data), any_communicator(tensor), true);
    });
    for (const outcome& o : seen) CHECK(o.text() == "");
    for (const std::string& f : found) CHECK(f == "");
    CHECK(wrong_places == 0);
  }
  gloo::rendezvous::HashStore store;
  CHECK_THROWS_AS(swiglu::gloo_mesh(store, loopback(), 4, 2, 2), std::invalid_argument);
  CHECK_THROWS_AS(swiglu::gloo_mesh(store, loopback(), 0, 0, 2), std::invalid_argument);
}

TEST_CASE("a rank that throws, before, between or inside: the others get an error at once") {
  const time_limit limit("throws");
  for (int sums = 0; sums < 3; ++sums) {
    std::atomic<clock::time_point> thrown{};
    const auto seen = ranks(4, [&](gloo_communicator& c) {
      for (int i = 0; i < sums; ++i) sum(c);
      if (c.rank() == 2) {
        std::this_thread::sleep_for(20ms);  // the others wait by now
        thrown = clock::now();
        throw std::domain_error("rank 2 has no memory");
      }
      for (int i = 0; i < 2; ++i) sum(c, 50000);
    });
    for (std::size_t rank = 0; rank < 4; ++rank) {
      CHECK((rank == 2 ? seen[rank].is<std::domain_error>() : seen[rank].is<swiglu::communicator_error>()));
      CHECK(std::chrono::duration<double, std::milli>(seen[rank].at - thrown.load()).count() < 5000.0);
    }
  }
}

TEST_CASE("a rank of a mesh that throws frees the others, whatever axis they wait on") {
  const time_limit limit("mesh throws");
  gloo::rendezvous::HashStore store;
  std::atomic<clock::time_point> thrown{};
  const auto seen = outcomes(4, [&](int rank) {
    swiglu::gloo_mesh mesh(store, loopback(), rank, 2, 2);
    sum(mesh.data), sum(mesh.tensor);
    if (rank == 0) {
      std::this_thread::sleep_for(20ms);
      thrown = clock::now();
      throw std::domain_error("rank 0 has no memory");
    }
    sum(rank == 1 ? mesh.data : mesh.tensor);  // 1 waits for 3, and 3 for 2
    sum(mesh.data), sum(mesh.tensor);
  });
  CHECK(seen[0].is<std::domain_error>());
  for (std::size_t rank = 1; rank < 4; ++rank) {
    CHECK(seen[rank].is<swiglu::communicator_error>());
    CHECK(std::chrono::duration<double, std::milli>(seen[rank].at - thrown.load()).count() < 5000.0);
  }
}

TEST_CASE("a rank that leaves early, and calls after that") {
  const time_limit limit("leaves");
  const auto seen = ranks(3, [](gloo_communicator& c) {
    sum(c);
    if (c.rank() == 1) return;
    const outcome first = outcome_of([&] { sum(c), sum(c); });
    const outcome again = outcome_of([&] { sum(c); });
    if (!first.is<swiglu::communicator_error>() || !again.is<swiglu::communicator_aborted>() ||
        !again.says("an earlier call failed"))
      throw std::logic_error(first.text() + again.text());
  });
  for (const outcome& o : seen) CHECK(o.text() == "");
}

TEST_CASE("a rank that sleeps is waited for, one that never comes ends at the deadline") {
  const time_limit limit("deadline");
  for (const outcome& o : ranks(3, [](gloo_communicator& c) {
         sum(c);
         if (c.rank() == 1) std::this_thread::sleep_for(200ms);
         sum(c);
       }))
    CHECK(o.text() == "");

  std::atomic<int> out{0};
  const auto start = clock::now();
  const auto seen = ranks(
      3,
      [&](gloo_communicator& c) {
        sum(c);
        if (c.rank() == 1) {
          while (out < 2) std::this_thread::sleep_for(1ms);
          return;
        }
        const outcome late = outcome_of([&] { sum(c); });
        ++out;
        std::rethrow_exception(late.error);
      },
      300ms);
  CHECK(milliseconds_since(start) >= 300.0);
  CHECK(milliseconds_since(start) < 10000.0);
  CHECK((seen[0].is<swiglu::collective_timeout>() || seen[2].is<swiglu::collective_timeout>()));
  CHECK(seen[0].is<swiglu::communicator_error>());
  CHECK(seen[2].is<swiglu::communicator_error>());
}

TEST_CASE("an abort, from another thread too, wakes the ranks that wait, and ends what comes after") {
  const time_limit limit("abort");
  std::atomic<clock::time_point> asked{};
  const auto seen = ranks(3, [&](gloo_communicator& c) {
    sum(c);
    if (c.rank() == 2)
      std::thread([&] {
        std::this_thread::sleep_for(20ms);
        asked = clock::now();
        c.abort(nullptr);
        c.abort(nullptr);
      }).join();
    sum(c);
  });
  CHECK(seen[0].is<swiglu::communicator_error>());
  CHECK(seen[1].is<swiglu::communicator_error>());
  CHECK(seen[2].is<swiglu::communicator_aborted>());
  for (const outcome& o : seen) CHECK(std::chrono::duration<double, std::milli>(o.at - asked.load()).count() < 5000.0);
}

TEST_CASE("one call at a time, and right sizes") {
  const time_limit limit("one call");
  std::atomic<int> told{0};
  std::atomic<bool> tried{false};
  for (const outcome& o : ranks(2, [&](gloo_communicator& c) {
         std::vector<float> v(4), w(8);
         told += outcome_of([&] {
                   c.all_gather(std::span<const float>(v), std::span<float>(v));
                 }).is<std::invalid_argument>();
         told += outcome_of([&] {
                   c.reduce_scatter(std::span<const float>(v), std::span<float>(w));
                 }).is<std::invalid_argument>();
         if (c.rank() == 1) {
           while (!tried) std::this_thread::yield();
           return sum(c);
         }
         const std::jthread first([&] { sum(c); });  // waits for rank 1
         std::this_thread::sleep_for(20ms);
         told += outcome_of([&] { sum(c); }).says("entered by two threads");
         tried = true;
       }))
    CHECK(o.text() == "");
  CHECK(told == 5);
  CHECK_THROWS_AS(gloo_communicator(nullptr), std::invalid_argument);
}

TEST_CASE("ranks that do not come to be connected") {
  const time_limit limit("connect");
  gloo::rendezvous::HashStore store;
  const outcome seen = outcome_of([&] { (void)swiglu::connect_gloo(store, loopback(), "test", 0, 2, 200ms); });
  CHECK(seen.is<swiglu::communicator_error>());
}

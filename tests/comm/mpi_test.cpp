// SPDX-License-Identifier: MIT
// Ranks that are MPI processes: four of them, each of which runs all of this.

#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <swiglu/comm/check.hpp>
#include <swiglu/comm/checked.hpp>
#include <swiglu/comm/delayed.hpp>
#include <swiglu/comm/mpi.hpp>
#include <swiglu/comm/mpi_mesh.hpp>
#include <swiglu/comm/rank_ordered.hpp>

#include "comm/layer_scene.hpp"
#include "comm/scenes.hpp"
#include "comm/support.hpp"

using namespace comm_test;
using swiglu::mpi_communicator;

namespace {

const swiglu::mpi_session session;

static_assert(swiglu::communicator<mpi_communicator, float> && swiglu::communicator<mpi_communicator, std::int16_t>);
static_assert(swiglu::nonblocking_communicator<mpi_communicator, double>);
static_assert(swiglu::scatter_gather_communicator<mpi_communicator, float>);
static_assert(swiglu::abortable_communicator<mpi_communicator>);
static_assert(!swiglu::communicator<mpi_communicator, bool> && !swiglu::communicator<mpi_communicator, std::string>);
static_assert(swiglu::request<swiglu::mpi_request>);

/// Many parts of a call, as counts beyond INT_MAX would make.
constexpr std::size_t few = 1000;

}  // namespace

TEST_CASE("four processes of one job") {
  const mpi_communicator world(MPI_COMM_WORLD);
  REQUIRE(world.size() == 4);  // else every process was started by another MPI's launcher, as a job of its own
  CHECK(world.rank() >= 0);
  CHECK(world.rank() < 4);
}

TEST_CASE("the laws, of the communicator and of the adaptors around it") {
  const time_limit limit("laws");
  mpi_communicator world(MPI_COMM_WORLD);
  CHECK(swiglu::check_communicator(world).text() == "");
  mpi_communicator parts(MPI_COMM_WORLD, {.most_elements = few});
  CHECK(swiglu::check_communicator<double>(parts).text() == "");
  mpi_communicator patient(MPI_COMM_WORLD, {.most_elements = 10 * few, .timeout = 60s});
  CHECK(swiglu::check_communicator(patient).text() == "");
  swiglu::checked checking(world);
  CHECK(swiglu::check_communicator(checking).text() == "");
  swiglu::rank_ordered ordered(world);
  CHECK(swiglu::check_communicator(ordered).text() == "");
  mpi_communicator alone(MPI_COMM_SELF);
  CHECK(swiglu::check_communicator(alone).text() == "");
}

TEST_CASE("sums in parts are the sums in one, to the bit of the term") {
  const time_limit limit("parts");
  for (const std::size_t most : {std::size_t{7}, few, std::size_t{1} << 30}) {
    mpi_communicator world(MPI_COMM_WORLD, {.most_elements = most});
    complaints found;
    for (const std::size_t count : {0U, 6U, 7U, 8U, 14U, 999U, 1000U, 1001U, 2000U}) {
      std::vector<std::int64_t> blocking(count), started, in(4 * count), part(count), all(4 * count);
      for (std::size_t i = 0; i < count; ++i) blocking[i] = world.rank() + 10 * static_cast<std::int64_t>(i);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = world.rank() + 10 * static_cast<std::int64_t>(i);
      started = blocking;
      world.all_reduce(std::span<std::int64_t>(blocking));
      auto request = world.iall_reduce(std::span<std::int64_t>(started));
      request.wait();
      world.reduce_scatter(std::span<const std::int64_t>(in), std::span<std::int64_t>(part));
      world.all_gather(std::span<const std::int64_t>(part), std::span<std::int64_t>(all));
      const auto due = [](std::size_t i) { return 6 + 40 * static_cast<std::int64_t>(i); };
      const std::size_t first = static_cast<std::size_t>(world.rank()) * count;
      for (std::size_t i = 0; i < count; ++i) {
        found.unless(blocking[i] == due(i), "all_reduce");
        found.unless(started[i] == due(i), "iall_reduce");
        found.unless(part[i] == due(first + i), "reduce_scatter");
      }
      for (std::size_t i = 0; i < all.size(); ++i) found.unless(all[i] == due(i), "all_gather");
    }
    CHECK(found.text() == "");
  }
}

TEST_CASE("rank_ordered has the bits of threads") {
  const time_limit limit("rank_ordered");
  mpi_communicator world(MPI_COMM_WORLD);
  swiglu::rank_ordered ordered(world);
  CHECK(folds(ordered) == "");
}

TEST_CASE("checked: calls that differ") {
  const time_limit limit("mismatch");
  mpi_communicator world(MPI_COMM_WORLD);
  swiglu::checked checking(world);
  CHECK(mismatches(checking) == "");
}

TEST_CASE("many tiny sums, by ranks that dawdle") {
  const time_limit limit("tiny sums", 240s);
  mpi_communicator world(MPI_COMM_WORLD);
  CHECK(tiny_sums(world, 5000) == "");
}

TEST_CASE("a rank that sleeps is waited for, with a deadline and without") {
  const time_limit limit("sleeper");
  for (const auto timeout : {std::optional<std::chrono::nanoseconds>(), std::optional<std::chrono::nanoseconds>(60s)}) {
    mpi_communicator world(MPI_COMM_WORLD, {.timeout = timeout});
    std::vector<float> v(100, 1.0F);
    world.all_reduce(std::span<float>(v).first(1));
    const auto start = clock::now();
    if (world.rank() == 3) std::this_thread::sleep_for(200ms);
    world.all_reduce(std::span<float>(v));
    CHECK(v[99] == 4.0F);
    CHECK((world.rank() == 3 || milliseconds_since(start) > 100.0));
  }
}

TEST_CASE("a rank that comes too late: the deadline, with its name; every later call throws at once") {
  const time_limit limit("late");
  {
    mpi_communicator world(MPI_COMM_WORLD, {.timeout = 300ms});
    mpi_communicator meeting_point(MPI_COMM_WORLD);
    std::vector<float> v(100, 1.0F);
    const auto sum = [&] { world.all_reduce(std::span<float>(v)); };
    sum();
    const auto start = clock::now();
    if (world.rank() != 1) {
      const outcome late = outcome_of(sum);
      CHECK(milliseconds_since(start) >= 300.0);
      CHECK(milliseconds_since(start) < 10000.0);
      CHECK(late.is<swiglu::collective_timeout>());
      CHECK(late.says("missing: rank 1"));
      CHECK_FALSE(late.says("rank 2, rank 3"));
      const outcome again = outcome_of(sum);
      CHECK(again.is<swiglu::communicator_aborted>());
      CHECK(outcome_of([&] { (void)world.iall_reduce(std::span<float>(v)); }).is<swiglu::communicator_aborted>());
      CHECK(v[0] == 4.0F);  // MPI did not write to it afterwards
    }
    meeting_point.all_reduce(std::span<float>());
    // It comes at last, so that MPI can be ended: the sum that the others have given up is made.
    if (world.rank() == 1) (void)outcome_of(sum);
    meeting_point.all_reduce(std::span<float>());
  }
}

TEST_CASE("MPI's errors are exceptions") {
  const time_limit limit("errors");
  CHECK_THROWS_AS(mpi_communicator(MPI_COMM_WORLD, {.most_elements = 0}), std::invalid_argument);
  CHECK_THROWS_AS(mpi_communicator(MPI_COMM_WORLD, {.most_elements = std::size_t{1} << 31}), std::invalid_argument);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // for calls on no communicator at all
  const outcome seen = outcome_of([] { mpi_communicator(MPI_COMM_NULL); });
  CHECK(seen.is<swiglu::mpi_error>());
  CHECK(seen.says("MPI_Comm_dup"));
  CHECK(outcome_of([] { mpi_communicator(MPI_COMM_NULL, 0, 0); }).says("MPI_Comm_split"));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  mpi_communicator world(MPI_COMM_WORLD);
  std::vector<float> v(4);
  CHECK_THROWS_AS(world.all_gather(std::span<const float>(v), std::span<float>(v)), std::invalid_argument);
  CHECK_THROWS_AS(world.reduce_scatter(std::span<const float>(v), std::span<float>(v)), std::invalid_argument);
  float x = 1;
  world.all_reduce(std::span<float>(&x, 1));  // none of that was an error of this communicator
  CHECK(x == 4);
}

TEST_CASE("one call at a time, and only where MPI may be called") {
  const time_limit limit("one call");
  mpi_communicator world(MPI_COMM_WORLD);
  std::vector<float> v(8, 1.0F);
  auto request = world.iall_reduce(std::span<float>(v));
  CHECK(outcome_of([&] { world.all_reduce(std::span<float>(v)); }).says("before a request's wait()"));
  request.wait();
  CHECK(v[7] == 4.0F);
  outcome elsewhere, made;
  std::thread([&] {
    elsewhere = outcome_of([&] { world.all_reduce(std::span<float>(v)); });
    made = outcome_of([] { mpi_communicator(MPI_COMM_SELF); });
  }).join();
  CHECK(elsewhere.is<std::logic_error>());
  CHECK(elsewhere.says("MPI_THREAD_FUNNELED"));
  CHECK(made.is<std::logic_error>());
  CHECK_THROWS_AS(swiglu::mpi_session(), std::logic_error);  // started already
}

TEST_CASE("a communicator that an exception takes away waits for nobody") {
  const time_limit limit("unwinding");
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int round = 0; round < 8; ++round) {
    const auto start = clock::now();
    const outcome seen = outcome_of([&] {
      mpi_communicator world(MPI_COMM_WORLD);
      swiglu::checked checking(world);
      if (rank == round % 4) throw std::runtime_error("on one rank only");
    });
    CHECK(seen.says("on one rank only") == (rank == round % 4));
    CHECK(milliseconds_since(start) < 30000.0);
  }
}

TEST_CASE("the world as a mesh: the layer on every mesh of four processes or fewer") {
  const time_limit limit("mesh");
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const auto& [d, t] : {std::array{2, 2}, std::array{4, 1}, std::array{1, 4}}) {
    swiglu::mpi_mesh ranks(MPI_COMM_WORLD, d, t, {.most_elements = few});
    auto axes = ranks.axes();
    CHECK(axes.rank() == rank);
    CHECK((axes.data.size() == d && axes.tensor.size() == t));
    CHECK(layer_on_mesh(any_communicator(axes.data), any_communicator(axes.tensor), false) == "");
    swiglu::rank_ordered data(axes.data), tensor(axes.tensor);
    CHECK(layer_on_mesh(any_communicator(data), any_communicator(tensor), true) == "");
  }
  const mpi_communicator pair(MPI_COMM_WORLD, rank / 2, rank);
  CHECK(pair.size() == 2);
  MPI_Comm two = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &two);
  for (const auto& [d, t] : {std::array{2, 1}, std::array{1, 2}}) {
    swiglu::mpi_mesh ranks(two, d, t);
    swiglu::checked data(ranks.data), tensor(ranks.tensor);
    CHECK(layer_on_mesh(any_communicator(data), any_communicator(tensor), false) == "");
  }
  MPI_Comm_free(&two);
  swiglu::mpi_mesh alone(MPI_COMM_SELF, 1, 1);
  CHECK(layer_on_mesh(any_communicator(alone.data), any_communicator(alone.tensor), true) == "");
  CHECK_THROWS_WITH_AS(swiglu::mpi_mesh(MPI_COMM_WORLD, 3, 1),
                       "swiglu::mpi_mesh: 3 data x 1 tensor ranks expected, got 4 processes", std::invalid_argument);
  CHECK_THROWS_AS(swiglu::mpi_mesh(MPI_COMM_WORLD, 0, 4), std::invalid_argument);
  CHECK_THROWS_AS(swiglu::mpi_mesh(MPI_COMM_WORLD, -4, -1), std::invalid_argument);
}

TEST_CASE("as the guide has it") {
  const time_limit limit("guide");
  // [mpi]
  swiglu::mpi_mesh ranks(MPI_COMM_WORLD, 2, 2);                 // four processes: 2 data ranks x 2 tensor ranks
  swiglu::rank_ordered data(ranks.data), tensor(ranks.tensor);  // if the bits shall be those of threads
  swiglu::checked checked_data(data), checked_tensor(tensor);   // if the ranks shall compare their calls
  swiglu::mesh axes{checked_data, checked_tensor};
  // [/mpi]
  CHECK(layer_on_mesh(any_communicator(axes.data), any_communicator(axes.tensor), true) == "");
}

TEST_CASE("a link that is slower than MPI's") {
  const time_limit limit("delayed");
  mpi_communicator world(MPI_COMM_WORLD);
  swiglu::delayed slow(world, {.latency = 50ms});
  std::vector<float> v(100, 1.0F);
  const auto start = clock::now();
  slow.all_reduce(std::span<float>(v));
  CHECK(milliseconds_since(start) >= 50.0);
  CHECK(v[99] == 4.0F);
}

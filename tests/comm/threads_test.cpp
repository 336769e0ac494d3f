// SPDX-License-Identifier: MIT
// Ranks that are threads: what they compute.

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include <swiglu/comm/launch.hpp>

#include "comm/support.hpp"

using namespace comm_test;

namespace {

constexpr std::array<std::size_t, 10> counts{0, 1, 2, 3, 15, 16, 17, 1000, 4095, 100003};

/// 0: everything where it lies; 1 MiB: everything up to 262144 floats copied.
constexpr std::array<std::size_t, 3> copy_limits{0, 16 * 1024, 1024 * 1024};

template <class T>
int wrong_ranks(int ranks, std::size_t count, std::size_t copy_limit) {
  std::atomic<int> wrong{0};
  swiglu::run_ranks(
      ranks,
      [&](swiglu::thread_communicator& c) {
        std::vector<T> v = terms<T>(c.rank(), count);
        c.all_reduce(std::span<T>(v));
        if (!is_fold(v, ranks)) ++wrong;
      },
      patient(copy_limit));
  return wrong;
}

}  // namespace

TEST_CASE("all_reduce is the ascending fold, to the bit, on every rank, whatever the count and the scheme") {
  const time_limit limit("all_reduce");
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (const std::size_t count : counts)
      for (const std::size_t copy_limit : copy_limits) {
        CAPTURE(ranks);
        CAPTURE(count);
        CAPTURE(copy_limit);
        CHECK(wrong_ranks<float>(ranks, count, copy_limit) == 0);
      }
}

TEST_CASE_TEMPLATE("all_reduce of other element types", T, double, int, std::int64_t, std::uint8_t, std::int16_t,
                   std::complex<float>) {
  const time_limit limit("types");
  for (const std::size_t count : {std::size_t{17}, std::size_t{9000}})
    for (const std::size_t copy_limit : copy_limits) CHECK(wrong_ranks<T>(3, count, copy_limit) == 0);
}

TEST_CASE("an unaligned buffer gives the same bits") {
  const time_limit limit("unaligned");
  std::atomic<int> wrong{0};
  for (const std::size_t copy_limit : copy_limits)
    swiglu::run_ranks(
        3,
        [&](swiglu::thread_communicator& c) {
          std::vector<float> storage = terms(c.rank(), 5003);
          const std::size_t shift = 1 + static_cast<std::size_t>(c.rank());
          storage.insert(storage.begin(), shift, 7.0F);
          storage.push_back(7.0F);
          c.all_reduce(std::span<float>(storage).subspan(shift, 5003));
          for (std::size_t i = 0; i < shift; ++i) wrong += storage[i] != 7.0F;
          wrong += storage.back() != 7.0F;
          wrong +=
              !is_fold(std::vector<float>(storage.begin() + static_cast<std::ptrdiff_t>(shift), storage.end() - 1), 3);
        },
        patient(copy_limit));
  CHECK(wrong == 0);
}

TEST_CASE("a bundle is the separate calls, to the bit") {
  const time_limit limit("bundle");
  const std::vector<std::vector<std::size_t>> bundles{{},     {0},       {0, 0},        {4},
                                                      {2, 2}, {1, 0, 3}, {1000, 17, 1}, {100003, 0, 4095}};
  std::atomic<int> wrong{0};
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (const std::size_t copy_limit : copy_limits)
      swiglu::run_ranks(
          ranks,
          [&](swiglu::thread_communicator& c) {
            for (const auto& shape : bundles) {
              std::vector<std::vector<float>> buffers;
              std::vector<std::span<float>> spans;
              for (const std::size_t count : shape) buffers.push_back(terms(c.rank(), count));
              for (auto& buffer : buffers) spans.emplace_back(buffer);
              c.all_reduce(std::span<const std::span<float>>(spans));
              for (const auto& buffer : buffers) wrong += !is_fold(buffer, ranks);
            }
          },
          patient(copy_limit));
  CHECK(wrong == 0);
}

TEST_CASE("more buffers than the board has room for") {
  const time_limit limit("many buffers");
  std::atomic<int> wrong{0};
  swiglu::run_ranks(
      3,
      [&](swiglu::thread_communicator& c) {
        std::vector<float> all = terms(c.rank(), 200);
        std::vector<std::span<float>> spans;
        for (std::size_t i = 0; i < 100; ++i) spans.push_back(std::span<float>(all).subspan(2 * i, 2));
        c.all_reduce(std::span<const std::span<float>>(spans));
        wrong += !is_fold(all, 3);
      },
      patient());
  CHECK(wrong == 0);
}

TEST_CASE("reduce_scatter leaves each rank its part of the fold, all_gather all parts everywhere") {
  const time_limit limit("reduce_scatter, all_gather");
  std::atomic<int> wrong{0};
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (const std::size_t copy_limit : copy_limits)
      for (const std::size_t part : {0U, 1U, 3U, 16U, 1000U, 20011U})
        swiglu::run_ranks(
            ranks,
            [&](swiglu::thread_communicator& c) {
              const std::size_t first = part * static_cast<std::size_t>(c.rank());
              const std::vector<float> in = terms(c.rank(), part * static_cast<std::size_t>(ranks));
              std::vector<float> out(part, 99.0F), all(in.size(), 99.0F);
              c.reduce_scatter(std::span<const float>(in), std::span<float>(out));
              wrong += !is_fold(out, ranks, first);
              wrong += !is_terms(in, c.rank());
              c.all_gather(std::span<const float>(out), std::span<float>(all));
              wrong += !is_fold(all, ranks);
            },
            patient(copy_limit));
  CHECK(wrong == 0);
}

TEST_CASE("infinity and NaN reach every rank, and a sum of -0 is -0") {
  const time_limit limit("special values");
  std::atomic<int> wrong{0};
  for (const std::size_t copy_limit : copy_limits)
    swiglu::run_ranks(
        4,
        [&](swiglu::thread_communicator& c) {
          constexpr float infinity = std::numeric_limits<float>::infinity();
          std::array<float, 4> x{c.rank() == 2 ? infinity : 1.0F,
                                 c.rank() == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0F,
                                 c.rank() == 3   ? -infinity
                                 : c.rank() == 0 ? infinity
                                                 : 0.0F,
                                 -0.0F};
          c.all_reduce(std::span<float>(x));
          wrong += !(x[0] == infinity && x[1] != x[1] && x[2] != x[2] && same_bits(x[3], -0.0F));
        },
        patient(copy_limit));
  CHECK(wrong == 0);
}

TEST_CASE("one rank alone touches nothing") {
  // Constants lie in memory that cannot be written.
  static const std::array<float, 3> constants{1.0F, -0.0F, std::numeric_limits<float>::infinity()};
  swiglu::run_ranks(1, [&](swiglu::thread_communicator& c) {
    const std::span<float> buffer(const_cast<float*>(constants.data()), constants.size());
    c.all_reduce(buffer);
    c.all_reduce(std::span<const std::span<float>>(&buffer, 1));
    auto request = c.iall_reduce(buffer);
    if (!request.test()) throw std::runtime_error("not complete");
    request.wait();
  });
  CHECK(constants[0] == 1.0F);
}

TEST_CASE("100000 tiny reductions in a row, with ranks that dawdle") {
  const time_limit limit("tiny reductions", 300s);
  std::atomic<int> wrong{0};
  const auto run = [&](int ranks, int rounds) {
    swiglu::run_ranks(
        ranks,
        [&](swiglu::thread_communicator& c) {
          std::minstd_rand random(static_cast<unsigned>(c.rank()) + 1);
          const float due = static_cast<float>(ranks * (ranks - 1) / 2);
          for (int i = 0; i < rounds; ++i) {
            std::array<float, 3> x;
            x.fill(static_cast<float>(c.rank() + i % 100));
            c.all_reduce(std::span<float>(x).first(1 + static_cast<std::size_t>(i % 3)));
            wrong += x[0] != due + static_cast<float>(ranks * (i % 100));
            if (random() % 4096 == 0) std::this_thread::sleep_for(50us);
            if (random() % 64 == 0) std::this_thread::yield();
          }
        },
        patient());
  };
  run(2, 100000);
  run(4, 100000);
  CHECK(wrong == 0);
}

TEST_CASE("eight ranks on two processors keep going") {
  const time_limit limit("eight ranks");
  const auto start = clock::now();
  std::atomic<int> wrong{0};
  swiglu::run_ranks(
      8,
      [&](swiglu::thread_communicator& c) {
        std::vector<float> v(8192);
        for (int i = 0; i < 2000; ++i) {
          v[8191] = 1.0F;
          c.all_reduce(std::span<float>(v));
          wrong += v[8191] != 8.0F;
        }
      },
      patient());
  CHECK(wrong == 0);
  CHECK(milliseconds_since(start) < 10000.0 * slowness);  // a spinning barrier takes minutes
}

TEST_CASE("a request: started, waited for, the same bits") {
  const time_limit limit("request");
  std::atomic<int> wrong{0};
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (const std::size_t copy_limit : copy_limits)
      swiglu::run_ranks(
          ranks,
          [&](swiglu::thread_communicator& c) {
            for (const std::size_t count : counts) {
              std::vector<float> waited = terms(c.rank(), count), tested = waited, dropped = waited;
              auto first = c.iall_reduce(std::span<float>(waited), "x");
              auto moved = std::move(first);
              moved.wait();
              moved.wait();  // once more does nothing
              auto second = c.iall_reduce(std::span<float>(tested), "y");
              while (!second.test()) std::this_thread::yield();
              second.wait();
              std::vector<float> again = terms(c.rank(), count);
              second = c.iall_reduce(std::span<float>(again));  // a request that is over can be assigned to
              second.wait();
              wrong += !is_fold(again, ranks);
              { const auto third = c.iall_reduce(std::span<float>(dropped)); }  // its destructor waits
              wrong += !is_fold(waited, ranks) + !is_fold(tested, ranks) + !is_fold(dropped, ranks);
            }
          },
          patient(copy_limit));
  CHECK(wrong == 0);
}

TEST_CASE("starting a request and testing it wait for nobody") {
  const time_limit limit("start");
  std::atomic<int> early{0};
  std::atomic<bool> called{false};
  swiglu::run_ranks(
      2,
      [&](swiglu::thread_communicator& c) {
        std::vector<float> v(50000, 1.0F);
        if (c.rank() == 1) {
          while (!called) std::this_thread::yield();  // rank 0 gets here before rank 1 has come at all
          c.all_reduce(std::span<float>(v));
        } else {
          auto request = c.iall_reduce(std::span<float>(v));
          early += request.test();
          called = true;
          request.wait();
        }
      },
      patient());
  CHECK(early == 0);
}

TEST_CASE(
    "a mesh: rank = data * tensor size + tensor, each axis sums over its own ranks, in the order of a backward pass") {
  const time_limit limit("mesh");
  std::atomic<int> wrong{0};
  const auto step = [&](int data, int tensor, std::size_t copy_limit) {
    std::atomic<unsigned> ranks_seen{0};
    swiglu::run_ranks(
        data, tensor,
        [&](swiglu::thread_mesh& axes) {
          wrong += axes.size() != data * tensor || axes.data.size() != data || axes.tensor.size() != tensor;
          wrong += axes.rank() != axes.data.rank() * tensor + axes.tensor.rank();
          ranks_seen |= 1U << axes.rank();
          for (int i = 0; i < 50; ++i) {
            std::vector<float> dx = terms(axes.tensor.rank(), 3000);
            std::vector<float> w1 = terms(axes.data.rank(), 5000), w3 = w1, w2 = terms(axes.data.rank(), 77);
            auto started = axes.tensor.iall_reduce(std::span<float>(dx), "grad_x");
            const std::array<std::span<float>, 3> bundle{w1, w3, w2};
            const std::array<std::string_view, 3> names{"w1", "w3", "w2"};
            axes.data.all_reduce(std::span<const std::span<float>>(bundle), std::span<const std::string_view>(names));
            started.wait();
            wrong += !is_fold(dx, tensor) + !is_fold(w1, data) + !is_fold(w3, data) + !is_fold(w2, data);
          }
        },
        patient(copy_limit));
    wrong += ranks_seen != (1U << (data * tensor)) - 1;
  };
  for (const std::size_t copy_limit : copy_limits) {
    step(2, 2, copy_limit);
    step(1, 3, copy_limit);
    step(3, 1, copy_limit);
    step(1, 1, copy_limit);
    step(4, 2, copy_limit);
  }
  CHECK(wrong == 0);
}

TEST_CASE("thread_world for threads of one's own") {
  const time_limit limit("thread_world");
  const swiglu::thread_world world(2, 2, patient());
  std::atomic<int> wrong{0};
  const auto seen = outcomes(world.size(), [&](int rank) {
    swiglu::thread_communicator data = world.data(rank), tensor = world.tensor(rank);
    swiglu::mesh axes{data, tensor};
    wrong += axes.rank() != rank;
    std::vector<float> v = terms(data.rank(), 100);
    data.all_reduce(std::span<float>(v));
    wrong += !is_fold(v, 2);
  });
  for (const outcome& o : seen) CHECK(o.text() == "");
  CHECK(wrong == 0);
  CHECK(world.error() == nullptr);

  CHECK_THROWS_AS((void)world.data(4), std::out_of_range);
  CHECK_THROWS_AS((void)world.tensor(-1), std::out_of_range);
  CHECK_THROWS_AS((void)world.data(0), std::logic_error);  // taken
  CHECK_THROWS_AS(swiglu::thread_world(0), std::invalid_argument);
  CHECK_THROWS_AS(swiglu::thread_world(2, 0), std::invalid_argument);
  CHECK_THROWS_AS(swiglu::thread_world(-1, 2), std::invalid_argument);
}

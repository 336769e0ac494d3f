// SPDX-License-Identifier: MIT
// The concepts, and the collectives for communicators that have the three basic members and nothing else.

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <swiglu/comm/collectives.hpp>
#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/launch.hpp>
#include <swiglu/comm/mesh.hpp>
#include <swiglu/comm/self.hpp>

#include "comm/support.hpp"

using namespace comm_test;

namespace {

/// The least that is a communicator. Whatever the library does beyond it does not compile here.
class archetype {
 public:
  explicit archetype(swiglu::thread_communicator& inner) : inner_(inner) {}
  archetype(const archetype&) = delete;
  archetype& operator=(const archetype&) = delete;
  void operator&() const = delete;

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  void all_reduce(std::span<float> buffer) {
    inner_.all_reduce(buffer);
    calls.push_back(buffer.size());
  }

  std::vector<std::size_t> calls;

 private:
  swiglu::thread_communicator& inner_;
};

/// Has every refinement, and writes down which one was used. One rank.
struct diary {
  struct mark {
    void wait() {}
    bool test() { return true; }
  };
  int rank() const { return 0; }
  int size() const { return 1; }
  void all_reduce(std::span<float>) { last = "all_reduce"; }
  void all_reduce(std::span<const std::span<float>>) { last = "bundle"; }
  void all_reduce(std::span<const std::span<float>>, std::span<const std::string_view> names) {
    last = "bundle";
    for (const std::string_view name : names) last.append(" ").append(name);
  }
  mark iall_reduce(std::span<float>) {
    last = "iall_reduce";
    return {};
  }
  void reduce_scatter(std::span<const float>, std::span<float>) { last = "reduce_scatter"; }
  void all_gather(std::span<const float>, std::span<float>) { last = "all_gather"; }
  void abort(std::exception_ptr) noexcept { last = "abort"; }

  std::string last;
};

struct returns_a_code {
  int rank() const { return 0; }
  int size() const { return 1; }
  int all_reduce(std::span<float>) { return 0; }
};
struct throwing_abort {
  void abort(std::exception_ptr) {}
};
struct promises {
  static constexpr swiglu::reduction_order order = swiglu::reduction_order::per_run;
};
struct has_another_order {
  int order = 0;
};

template <class C>
concept refined = swiglu::tagged_communicator<C, float> && swiglu::nonblocking_communicator<C, float> &&
    swiglu::scatter_gather_communicator<C, float> && swiglu::abortable_communicator<C>;

static_assert(swiglu::communicator<archetype, float>);
static_assert(!swiglu::communicator<archetype, double>);
static_assert(!swiglu::bundled_communicator<archetype, float>);
static_assert(!swiglu::nonblocking_communicator<archetype, float>);
static_assert(!swiglu::scatter_gather_communicator<archetype, float>);
static_assert(!swiglu::abortable_communicator<archetype>);
static_assert(!swiglu::communicator<returns_a_code, float>);
static_assert(!swiglu::communicator<int, float>);
static_assert(!swiglu::abortable_communicator<throwing_abort>);
static_assert(refined<swiglu::self> && refined<swiglu::thread_communicator> && refined<diary>);
static_assert(swiglu::request<swiglu::thread_request> && swiglu::request<swiglu::finished_request>);
static_assert(!swiglu::communicator<swiglu::thread_communicator, std::string>);

using swiglu::reduction_order;
static_assert(swiglu::reduction_order_v<archetype> == reduction_order::unspecified);
static_assert(swiglu::reduction_order_v<has_another_order> == reduction_order::unspecified);
static_assert(swiglu::reduction_order_v<promises> == reduction_order::per_run);
static_assert(swiglu::reduction_order_v<swiglu::self> == reduction_order::rank_order);
static_assert(swiglu::reduction_order_v<swiglu::thread_communicator> == reduction_order::rank_order);

}  // namespace

TEST_CASE("the three basic members are enough") {
  const time_limit limit("archetype");
  std::atomic<int> wrong{0};
  for (int ranks = 1; ranks <= 3; ++ranks)
    swiglu::run_ranks(
        ranks,
        [&](swiglu::thread_communicator& inner) {
          archetype c(inner);
          std::vector<float> a = terms(c.rank(), 100), b = terms(c.rank(), 0), d = terms(c.rank(), 7);
          const std::array<std::span<float>, 3> bundle{a, b, d};
          const std::array<std::string_view, 3> names{"a", "b", "d"};
          swiglu::all_reduce<float>(c, bundle, names);
          wrong += !is_fold(a, ranks) + !is_fold(b, ranks) + !is_fold(d, ranks);
          wrong += c.calls != std::vector<std::size_t>{100, 0, 7};  // one call per buffer, in order, the empty too

          a = terms(c.rank(), 100);
          auto request = swiglu::start_all_reduce(c, std::span<float>(a), "a");
          static_assert(std::same_as<decltype(request), swiglu::finished_request>);
          wrong += !is_fold(a, ranks) + !request.test();
          request.wait();

          const auto part = std::size_t{10};
          std::vector<float> in = terms(c.rank(), part * static_cast<std::size_t>(ranks)), out(part),
                             all(in.size(), 9.0F);
          swiglu::reduce_scatter(c, std::span<float>(in), std::span<float>(out));
          wrong += !is_fold(out, ranks, part * static_cast<std::size_t>(c.rank()));
          swiglu::all_gather(c, std::span<const float>(out), std::span<float>(all));
          wrong += !is_fold(all, ranks);  // -0 included

          wrong += swiglu::abort_peers(c, nullptr);
          float x = 1.0F;  // nobody was aborted
          c.all_reduce(std::span<float>(&x, 1));
        },
        patient());
  CHECK(wrong == 0);
}

TEST_CASE("refinements are used where they are") {
  diary c;
  std::array<float, 2> a{1, 2}, b{3, 4};
  const std::vector<std::span<float>> bundle{a, b};
  const std::vector<std::string_view> names{"gate", "up"};
  swiglu::all_reduce<float>(c, bundle);
  CHECK(c.last == "bundle");
  swiglu::all_reduce<float>(c, bundle, names);
  CHECK(c.last == "bundle gate up");
  swiglu::all_reduce(c, std::span<const std::span<float>>(bundle));  // T deduced
  CHECK(c.last == "bundle");
  auto request = swiglu::start_all_reduce<float>(c, a, "name that this iall_reduce does not take");
  CHECK(c.last == "iall_reduce");
  CHECK(request.test());
  swiglu::reduce_scatter<float>(c, a, b);
  CHECK(c.last == "reduce_scatter");
  swiglu::all_gather<float>(c, a, b);
  CHECK(c.last == "all_gather");
  CHECK(swiglu::abort_peers(c, nullptr));
  CHECK(c.last == "abort");
}

TEST_CASE("wrong sizes are refused before anything is called") {
  diary c;
  std::array<float, 2> a{}, b{};
  std::array<float, 3> d{};
  const std::array<std::span<float>, 2> bundle{a, b};
  const std::array<std::string_view, 1> name{"a"};
  CHECK_THROWS_AS(swiglu::all_reduce<float>(c, bundle, name), std::invalid_argument);
  CHECK_THROWS_AS(swiglu::reduce_scatter<float>(c, a, d), std::invalid_argument);
  CHECK_THROWS_AS(swiglu::all_gather<float>(c, a, d), std::invalid_argument);
  CHECK(c.last.empty());
}

TEST_CASE("self is the identity") {
  swiglu::self c;
  CHECK(c.rank() == 0);
  CHECK(c.size() == 1);
  std::array<float, 3> x{1.0F, -0.0F, 3.0F}, y{};
  const std::array<float, 3> before = x;
  const std::array<std::span<float>, 1> bundle{x};
  const std::array<std::string_view, 1> names{"x"};
  c.all_reduce(std::span<float>(x));
  swiglu::all_reduce<float>(c, bundle);
  swiglu::all_reduce<float>(c, bundle, names);
  swiglu::start_all_reduce<float>(c, x).wait();
  CHECK(same_bits(x, before));
  c.reduce_scatter(std::span<const float>(x), std::span<float>(y));
  CHECK(same_bits(y, before));
  y = {};
  c.all_gather(std::span<const float>(x), std::span<float>(y));
  CHECK(same_bits(y, before));
  CHECK_THROWS_AS(c.all_gather(std::span<const float>(x), std::span<float>(y).first(2)), std::invalid_argument);
  c.abort(nullptr);
  c.all_reduce(std::span<float>(x));
}

TEST_CASE("a mesh refers to any two communicators") {
  swiglu::self alone;
  diary other;
  swiglu::mesh axes{alone, other};
  CHECK(axes.rank() == 0);
  CHECK(axes.size() == 1);
  CHECK(&axes.data == &alone);
  CHECK(&axes.tensor == &other);
  axes.abort(nullptr);
  CHECK(other.last == "abort");
}

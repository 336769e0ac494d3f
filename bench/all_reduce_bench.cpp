// SPDX-License-Identifier: MIT

// all_reduce over two ranks that are threads of this process. A rank that sums its half of the buffers reads n bytes (a
// half of each) and writes n (its half, to both), so that 2n bytes of traffic are the least: `bound_frac` is what
// copying n bytes takes, by both ranks at once, in the same memory and between the same slices, as a share of the time
// taken. Names: all_reduce/threads/f32/N:elements/threads:2. The time of the short one is that of 1024 calls.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <swiglu/comm/threads.hpp>
#include <swiglu/tensor.hpp>

#include "layer_case.hpp"
#include "stages.hpp"

namespace {

/// Two ranks: the calling thread, and one that follows it.
class ranks {
  using buffer = swiglu::tensor<float, swiglu::dynamic>;

 public:
  explicit ranks(std::size_t elements)
      : buffers_{buffer(elements), buffer(elements)},
        world_(2),
        leader_(world_.data(0)),
        follower_([this] { follow(); }) {}
  ranks(const ranks&) = delete;
  ranks& operator=(const ranks&) = delete;
  ~ranks() { tell(0); }

  /// So many all_reduces on both ranks. Throws the error that ended the communication.
  void run(std::size_t calls) {
    tell(calls);
    for (std::size_t i = 0; i < calls; ++i) leader_.all_reduce(buffers_[0].span());
  }
  std::array<buffer, 2>& buffers() { return buffers_; }

 private:
  void tell(std::size_t calls) {
    calls_ = calls;
    ++orders_;
    orders_.notify_one();
  }
  void follow() {
    swiglu::thread_communicator own = world_.data(1);
    for (unsigned seen = 0;;) {
      orders_.wait(seen);
      ++seen;
      const std::size_t calls = calls_;
      if (calls == 0) return;
      try {
        for (std::size_t i = 0; i < calls; ++i) own.all_reduce(buffers_[1].span());
      } catch (const swiglu::communicator_error&) {
        return;  // the leader gets it too
      }
    }
  }

  std::array<buffer, 2> buffers_;
  swiglu::thread_world world_;
  swiglu::thread_communicator leader_;
  std::size_t calls_ = 0;
  std::atomic<unsigned> orders_{0};
  std::jthread follower_;
};

void add_sum(std::size_t elements) {
  const std::string name = "all_reduce/threads/f32/N:" + std::to_string(elements) + "/threads:2";
  bench::register_run(name, [=](benchmark::State& state) {
    ranks both(elements);
    std::vector<std::vector<std::span<float>>> memory;
    for (auto& b : both.buffers()) memory.push_back({b.span()});
    bench::slices clock(2, bench::bandwidth<float>(std::move(memory)));
    // A short call is one of many that the follower is told of at once: that is not part of it.
    constexpr std::size_t at_once = 1024;
    const std::size_t calls = elements < 4096 ? at_once : 1;
    const bench::stretch possible = bench::run_in_slices(state, clock, [&] { both.run(calls); });
    const double traffic = 2 * 2 * static_cast<double>(elements * sizeof(float) * calls);  // of both ranks
    state.counters["seconds_per_call"] = possible.seconds / static_cast<double>(calls);
    state.counters["bytes_per_second"] = traffic / possible.seconds;
    state.counters["bound_frac"] = traffic / possible.bytes;
  });
}

}  // namespace

void bench::add_all_reduces() {
  for (const std::size_t elements : {std::size_t{64}, std::size_t{1} << 20, std::size_t{1} << 24}) add_sum(elements);
}

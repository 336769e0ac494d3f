// SPDX-License-Identifier: MIT

// Two ranks that are threads of this process: by memory, and by Gloo over the loopback interface, in turns.

#include <memory>
#include <thread>
#include <vector>

#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include <swiglu/comm/gloo.hpp>
#include <swiglu/comm/threads.hpp>

#include "latency.hpp"

namespace {

/// f(rank) on two threads; what rank 0 returns.
template <class F>
std::vector<double> on_two_threads(F f) {
  std::thread other([&] { f(1); });
  std::vector<double> seconds = f(0);
  other.join();
  return seconds;
}

}  // namespace

int main() {
  std::vector<double> by_threads, by_gloo;
  for (int turn = 0; turn < 5; ++turn) {
    swiglu::thread_world memory(2);
    const auto a = on_two_threads([&](int rank) {
      swiglu::thread_communicator c = memory.data(rank);
      return bench::latency_of(c);
    });
    gloo::rendezvous::HashStore store;
    const auto b = on_two_threads([&](int rank) {
      const auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
      swiglu::gloo_communicator c(swiglu::connect_gloo(store, device, "latency", rank, 2));
      return bench::latency_of(c);
    });
    by_threads.insert(by_threads.end(), a.begin(), a.end());
    by_gloo.insert(by_gloo.end(), b.begin(), b.end());
  }
  bench::print_latency("threads", by_threads);
  bench::print_latency("gloo", by_gloo);
}

// SPDX-License-Identifier: MIT

// The snippets of docs/communicators.md, compiled and run. Exits 1 if what they compute disagrees.

#include <chrono>
#include <cstdio>
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

namespace {

// [least]
/// All that the library asks of a transport.
struct my_transport {
  int rank() const { return 0; }
  int size() const { return 1; }
  void all_reduce(std::span<float>) {}  // in place: afterwards every rank holds the sum over all ranks
};
static_assert(swiglu::communicator<my_transport, float>);
// [/least]

bool options() {
  std::mutex mutex;
  std::string log;
  const auto work = [](swiglu::thread_mesh& axes) {
    float x = 1;
    axes.data.all_reduce(std::span<float>(&x, 1));
  };
  using namespace std::chrono_literals;
  // [options]
  swiglu::thread_options how;
  how.timeout = 60s;     // no call waits longer: collective_timeout, with a report of who is missing and where they are
  how.warn_after = 10s;  // and long before that, say so
  how.warn = [&](std::string_view report) {
    const std::lock_guard lock(mutex);
    log.append(report).append("\n");
  };
  swiglu::run_ranks(2, 2, work, how);
  // [/options]
  return log.empty();
}

bool root_cause() {
  std::string told;
  // [throw]
  try {
    swiglu::run_ranks(2, 2, [](swiglu::thread_mesh& axes) {
      if (axes.rank() == 3) throw std::runtime_error("rank 3 has no memory");
      float x = 1;
      axes.data.all_reduce(std::span<float>(&x, 1));  // throws communicator_aborted where rank 3 is waited for
      axes.tensor.all_reduce(std::span<float>(&x, 1));
    });
  } catch (const std::exception& e) {
    told = e.what();  // "rank 3 has no memory": the first error, and not what followed from it
  }
  // [/throw]
  return told == "rank 3 has no memory";
}

bool adaptors() {
  bool good[2] = {};
  swiglu::run_ranks(2, [&](swiglu::thread_communicator& transport) {
    std::vector<float> gate(100, 1.0f), up(100, 2.0f);
    const std::vector<std::span<float>> gradients{gate, up};
    const std::vector<std::string_view> names{"gate", "up"};
    // [adaptors]
    swiglu::rank_ordered ordered(transport);  // ((x0 + x1) + x2) + ...: the bits of threads, on any transport
    swiglu::checked safe(ordered);            // the ranks compare what they call, before anything moves
    swiglu::all_reduce<float>(safe, gradients, names);
    // [/adaptors]
    good[transport.rank()] = gate[99] == 2 && up[0] == 4;

    using namespace std::chrono_literals;
    // [delayed]
    swiglu::delayed slow(transport, {.latency = 50us, .bytes_per_second = 10e9});
    // [/delayed]
    slow.all_reduce(std::span<float>(gate));
    good[transport.rank()] = good[transport.rank()] && gate[50] == 4;
  });
  return good[0] && good[1];
}

bool conformance() {
  my_transport transport;
  // [check]
  const swiglu::conformance_report report = swiglu::check_communicator(transport);  // on every rank
  if (!report.conforms()) std::puts(report.text().c_str());
  // [/check]
  return report.conforms();
}

}  // namespace

int main() {
  const bool good[] = {options(), root_cause(), adaptors(), conformance()};
  for (const bool g : good)
    if (!g) return std::puts("a snippet of docs/communicators.md does something else than it says"), 1;
  return 0;
}

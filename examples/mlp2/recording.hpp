// SPDX-License-Identifier: MIT
#pragma once

// A communicator that writes down what passes through another one: a transport of one's own is an ordinary class with
// three members and whatever refinements it likes.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <swiglu/comm/collectives.hpp>

/// One all-reduce as one rank saw it.
struct recorded_call {
  struct buffer {
    std::string name;
    std::vector<float> before, after;
  };
  std::vector<buffer> buffers;
};

template <class Communicator>
class recording {
 public:
  explicit recording(Communicator& inner) : inner_(inner) {}

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  void all_reduce(std::span<float> buffer) { all_reduce({&buffer, 1}); }
  void all_reduce(std::span<const std::span<float>> buffers) {
    const std::vector<std::string_view> unnamed(buffers.size());
    all_reduce(buffers, unnamed);
  }
  void all_reduce(std::span<const std::span<float>> buffers, std::span<const std::string_view> names) {
    recorded_call call;
    for (std::size_t i = 0; i < buffers.size(); ++i)
      call.buffers.push_back({std::string(names[i]), {buffers[i].begin(), buffers[i].end()}, {}});
    swiglu::all_reduce<float>(inner_, buffers, names);
    for (std::size_t i = 0; i < buffers.size(); ++i) call.buffers[i].after.assign(buffers[i].begin(), buffers[i].end());
    calls.push_back(call);
  }
  /// Completes at once, so that the values after it can be recorded here.
  swiglu::finished_request iall_reduce(std::span<float> buffer, std::string_view name) {
    all_reduce({&buffer, 1}, {&name, 1});
    return {};
  }

  std::vector<recorded_call> calls;

 private:
  Communicator& inner_;
};

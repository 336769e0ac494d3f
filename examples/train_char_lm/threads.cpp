// SPDX-License-Identifier: MIT
#include <swiglu/comm/launch.hpp>

#include "transport.hpp"

namespace char_lm {

namespace {

class threads final : public transport {
 public:
  std::string kind() const override { return "threads"; }
  void check_mesh(int, int) const override {}

  // Threads add in ascending rank anyway.
  void train(const training_job<float>& job, int data, int tensor, bool) override {
    swiglu::run_ranks(data, tensor, [&](swiglu::thread_mesh& ranks) {
      axis data_axis(ranks.data), tensor_axis(ranks.tensor);
      train_rank(job, data_axis, tensor_axis);
    });
  }
};

}  // namespace

std::unique_ptr<transport> thread_transport() { return std::make_unique<threads>(); }

}  // namespace char_lm

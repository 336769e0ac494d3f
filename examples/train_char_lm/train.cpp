// SPDX-License-Identifier: MIT
#include <stdexcept>

#include <swiglu/comm/launch.hpp>

#include "job.hpp"
#include "options.hpp"
#include "timed.hpp"
#include "trainer.hpp"

namespace char_lm {

namespace {

template <std::size_t TensorParallel>
void train_on(const training_job<float>& job, int data) {
  swiglu::run_ranks(data, static_cast<int>(TensorParallel), [&](swiglu::thread_mesh& ranks) {
    // The library takes any communicators: here those of the threads, each inside one that measures it.
    seconds communication{};
    timed data_axis(ranks.data, communication), tensor_axis(ranks.tensor, communication);
    swiglu::mesh axes(data_axis, tensor_axis);
    trainer<float, shape, TensorParallel, decltype(axes)>(job, axes, communication).run();
  });
}

}  // namespace

void train(const training_job<float>& job, int data, int tensor) {
  switch (tensor) {
    case 1:
      return train_on<1>(job, data);
    case 2:
      return train_on<2>(job, data);
    case 4:
      return train_on<4>(job, data);
  }
  throw std::logic_error("no such tensor axis");
}

}  // namespace char_lm

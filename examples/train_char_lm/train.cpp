// SPDX-License-Identifier: MIT
#include <stdexcept>

#include "job.hpp"
#include "options.hpp"
#include "timed.hpp"
#include "trainer.hpp"
#include "transport.hpp"

namespace char_lm {

namespace {

template <std::size_t TensorParallel>
void train_rank_of(const training_job<float>& job, axis& data, axis& tensor) {
  // The library takes any communicators: here those of the transport, each inside one that measures it.
  seconds communication{};
  timed data_axis(data, communication), tensor_axis(tensor, communication);
  swiglu::mesh axes(data_axis, tensor_axis);
  trainer<float, shape, TensorParallel, decltype(axes)>(job, axes, communication).run();
}

}  // namespace

void train_rank(const training_job<float>& job, axis& data, axis& tensor) {
  switch (tensor.size()) {
    case 1:
      return train_rank_of<1>(job, data, tensor);
    case 2:
      return train_rank_of<2>(job, data, tensor);
    case 4:
      return train_rank_of<4>(job, data, tensor);
  }
  throw std::logic_error("no such tensor axis");
}

}  // namespace char_lm

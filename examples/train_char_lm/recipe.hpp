// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace char_lm {

/// What decides the numbers of a training run, beside the text and the shape of the model. The mesh is not part of it.
struct recipe {
  std::uint64_t seed = 1;
  std::uint64_t steps = 600;  ///< of the whole schedule, resumed runs included
  std::uint64_t batch = 512;  ///< characters of a step, on all data ranks together
  double rate = 4e-3;         ///< the highest learning rate
  double decay = 0.5;         ///< weight decay
  double clip = 1;            ///< the largest global norm of the gradient

  friend bool operator==(const recipe&, const recipe&) = default;
};

}  // namespace char_lm

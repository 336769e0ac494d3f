// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "checkpoint.hpp"
#include "corpus.hpp"
#include "progress.hpp"
#include "recipe.hpp"

namespace char_lm {

/// What to train. Shared by all ranks, which only read it; the functions are called by rank 0.
template <class T>
struct training_job {
  const corpus& of;
  recipe how;
  std::uint64_t first_step = 0, last_step = 0;  ///< steps [first, last) of how.steps
  std::uint64_t report_every = 1;               ///< steps between two validations
  std::uint64_t checkpoint_every = 0;           ///< 0: only at the end
  std::uint64_t sample = 0;                     ///< characters to generate at the end
  const snapshot<T>* resume = nullptr;          ///< null: start from random weights
  std::function<void(const step_report&)> on_step = {};
  std::function<void(std::uint64_t step, snapshot<T>)> on_checkpoint = {};
  std::function<void(const std::string&)> on_sample = {};
};

}  // namespace char_lm

// SPDX-License-Identifier: MIT
#pragma once

// A table of the run: on a terminal its last row is redrawn until it stands, elsewhere only rows that stand are
// printed.

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "timed.hpp"

namespace char_lm {

/// One step, as rank 0 saw it. Losses in bits per character.
struct step_report {
  std::uint64_t step = 0;  ///< how many are done
  double train = 0;
  std::optional<double> validation = {};  ///< if there is one, the row stands
  double rate = 0;
  seconds time{}, communication{};
};

class progress {
 public:
  /// `out` is borrowed; `columns` is the width of the terminal, 0 if it is none.
  progress(std::ostream& out, int columns, std::uint64_t steps, double characters_per_step, double flops_per_step);

  void operator()(const step_report& step);

 private:
  std::string row(const step_report& step) const;

  std::ostream& out_;
  int columns_;
  std::uint64_t steps_;
  double characters_, flops_;
  std::optional<double> validation_;  // the last one
  // Since the last row that stands:
  double train_ = 0, count_ = 0;
  seconds time_{}, communication_{};
  std::chrono::steady_clock::time_point drawn_{};
  bool started_ = false;
};

}  // namespace char_lm

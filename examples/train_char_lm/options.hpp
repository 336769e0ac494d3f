// SPDX-License-Identifier: MIT
#pragma once

// The command line.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recipe.hpp"
#include "shape.hpp"

namespace char_lm {

/// The model that this program trains. A layer's extents are compiled in, so are the ways of cutting it.
inline constexpr model_shape shape{.context = 8, .width = 24, .intermediate = 384, .blocks = 3};
inline constexpr std::array<int, 3> tensor_ranks{1, 2, 4};

struct options {
  std::vector<std::string> files, held_out;
  int data = 2, tensor = 2;
  bool mpi = false;           ///< ranks are MPI processes, not threads
  bool rank_ordered = false;  ///< sums in ascending rank on any transport
  recipe how;
  std::uint64_t report_every = 0;  ///< 0: ten times in all
  std::uint64_t stop_at = 0;       ///< 0: at the end
  std::uint64_t sample = 400;
  std::uint64_t checkpoint_every = 0;  ///< 0: only when the run ends
  std::string checkpoint, resume;
  bool help = false;
  std::vector<std::string> given;  ///< the flags that were there, e.g. "--steps"
};

/// Throws bad_input.
options parse_options(std::span<const char* const> arguments);

/// The recipe of a resumed run: that of the checkpoint. Throws bad_input if a flag that was given says something else.
recipe resumed_recipe(const options& o, const recipe& made_with);

std::string help_text();

}  // namespace char_lm

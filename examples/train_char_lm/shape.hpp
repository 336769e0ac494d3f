// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace char_lm {

/// The extents of the model that are known when the program is compiled; the alphabet is not.
struct model_shape {
  std::size_t context;       ///< characters that the model sees
  std::size_t width;         ///< of the embedding of each
  std::size_t intermediate;  ///< columns of gate and up
  std::size_t blocks;

  /// The embeddings side by side.
  constexpr std::size_t hidden() const { return context * width; }

  /// Floating-point operations of a training step for each character, in products: forward 2 for each weight,
  /// backward 4.
  constexpr double flops(std::size_t alphabet) const {
    return 6.0 * static_cast<double>(hidden() * (3 * intermediate * blocks + alphabet));
  }

  friend constexpr bool operator==(const model_shape&, const model_shape&) = default;
};

}  // namespace char_lm

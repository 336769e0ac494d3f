// SPDX-License-Identifier: MIT
#pragma once

namespace swiglu {

/// How the layer's mathematics is cut into kernels: a template argument, so that variants compare with all else equal.
/// All schedules agree to rounding; `save_h` changes no bit.
struct schedule {
  enum class kernels {
    fused,         ///< six contractions; the elementwise formulas ride in their epilogues; activations in panels
    per_operation  ///< XLA's: every product and every fused elementwise computation a kernel; transposes materialised
  };
  kernels cut = kernels::fused;
  /// Keep h from forward (tokens x intermediate elements a layer), or compute it again in backward. Fused only:
  /// per_operation always keeps it, and so do small layers of static shape.
  bool save_h = true;

  /// The default, and the fastest.
  static const schedule fused;
  /// `fused` with h recomputed: a third less memory between forward and backward.
  static const schedule fused_recompute_h;
  /// The schedule of XLA's CPU compiler for this layer, operation for operation (docs/hlo-map.md).
  static const schedule xla;

  friend constexpr bool operator==(const schedule&, const schedule&) = default;
};

inline constexpr schedule schedule::fused{};
inline constexpr schedule schedule::fused_recompute_h{kernels::fused, false};
inline constexpr schedule schedule::xla{kernels::per_operation, true};

}  // namespace swiglu

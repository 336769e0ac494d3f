// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace swiglu {

/// How the layer's mathematics is cut into kernels, what is kept between the passes, and how the sums over ranks are
/// made: a template argument, so that variants compare with all else equal. All schedules agree to rounding; what is
/// saved or computed again (save_h, save_sigmoid, checkpoint), how sums travel (bundle, overlap) and how products are
/// cut to fit caches (l1, l2) changes no bit.
struct schedule {
  enum class kernels {
    fused,        ///< six contractions; the elementwise formulas ride in their epilogues
    elementwise,  ///< every product a kernel of its own, and one elementwise pass over what it wrote
    unfused       ///< every product a kernel, and every elementwise formula, as in XLA's program
  };
  enum class transposition {
    packed,       ///< activations in panels, which are read as they are or transposed
    materialised  ///< activations row-major; the transposes that the weight gradients read are written to memory
  };
  enum class branches {
    one_contraction,  ///< g_h1 gate^T + g_h3 up^T in the same accumulators
    add_then_reduce,  ///< two products, added, then summed over the ranks
    reduce_then_add   ///< two products, summed over the ranks in one bundle, then added; never overlapped
  };

  kernels cut = kernels::fused;
  /// Keep h from forward (tokens x intermediate elements a layer), or compute it again in backward.
  bool save_h = true;
  /// Keep sigmoid(h1), and its complement unless the cut is unfused (as many elements each), or compute them again.
  /// The unfused cut takes 1 - sigmoid by subtraction, as XLA does.
  bool save_sigmoid = false;
  /// Keep nothing but x, which the caller has: backward begins with the products of forward. save_h and save_sigmoid
  /// then have no meaning.
  bool checkpoint = false;
  transposition transposes = transposition::packed;
  branches grad_x = branches::one_contraction;
  /// The weight gradients in one call of the communicator, or in one each.
  bool bundle = true;
  /// Whether the sum of grad_x travels while the weight gradients are computed.
  bool overlap = true;
  /// Bytes of the caches that products are cut for; 0: those typical of the instruction set (gemm/blocking.hpp).
  std::size_t l1 = 0, l2 = 0;

  /// Whether activations are in panels, from which a product reads them as they are or transposed.
  constexpr bool in_panels() const { return transposes == transposition::packed; }
  constexpr bool keeps_h1_h3() const { return !checkpoint; }
  constexpr bool keeps_h() const { return save_h && !checkpoint; }
  constexpr bool keeps_sigmoid() const { return save_sigmoid && !checkpoint; }
  /// Whether sigmoid(h1) is ever in memory.
  constexpr bool stores_sigmoid() const { return keeps_sigmoid() || cut == kernels::unfused; }

  /// The default, and the fastest.
  static const schedule fused;
  /// `fused` with h recomputed: a third less memory between forward and backward.
  static const schedule fused_recompute_h;
  /// `fused` with nothing kept: the least memory, for the two products of forward computed once more in backward.
  static const schedule fused_checkpoint;
  /// The schedule of XLA's CPU compiler for this layer, operation for operation (docs/hlo-map.md).
  static const schedule xla;

  friend constexpr bool operator==(const schedule&, const schedule&) = default;
};

inline constexpr schedule schedule::fused{};
inline constexpr schedule schedule::fused_recompute_h{.save_h = false};
inline constexpr schedule schedule::fused_checkpoint{.checkpoint = true};
inline constexpr schedule schedule::xla{.cut = kernels::unfused,
                                        .save_sigmoid = true,
                                        .transposes = transposition::materialised,
                                        .grad_x = branches::reduce_then_add,
                                        .overlap = false};

}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// The parts of swiglu_bench, each a source of its own.

namespace bench {

void add_peaks();          ///< peak, read, copy: what the machine can do
void add_layers();         ///< forward, backward, step
void add_contractions();   ///< gemm: the six contractions of the layer, one by one
void add_epilogues();      ///< epilogue: the elementwise formulas alone
void add_micro_kernels();  ///< ukernel: every micro-kernel
void add_all_reduces();    ///< all_reduce: the sum over ranks that are threads
void add_overlaps();       ///< overlap: a backward pass over a simulated link
void add_naive();          ///< forward, backward, step in plain loops, for the smallest shapes

}  // namespace bench

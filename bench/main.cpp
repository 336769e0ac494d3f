// SPDX-License-Identifier: MIT

#include "layer_case.hpp"
#include "stages.hpp"

int main(int argc, char** argv) {
  bench::add_peaks();
  bench::add_layers();
  bench::add_contractions();
  bench::add_epilogues();
  bench::add_micro_kernels();
  bench::add_all_reduces();
  bench::add_overlaps();
  bench::add_naive();
  return bench::run_all(argc, argv);
}

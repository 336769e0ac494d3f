// SPDX-License-Identifier: MIT

#include <cblas.h>

#include "composite.hpp"

namespace {

struct gemm {
  static void set_threads(int n) { openblas_set_num_threads(n); }
  static void run(std::size_t rows, std::size_t cols, std::size_t depth, bench::factor a, bench::factor b, float beta,
                  float* c) {
    const auto order = [](const bench::factor& f) { return f.transposed ? CblasTrans : CblasNoTrans; };
    const auto n = [](std::size_t i) { return static_cast<blasint>(i); };
    cblas_sgemm(CblasRowMajor, order(a), order(b), n(rows), n(cols), n(depth), 1, a.data, n(a.cols), b.data, n(b.cols),
                beta, c, n(cols));
  }
};

}  // namespace

int main(int argc, char** argv) { return bench::peer_main<gemm>("peer_openblas", argc, argv); }

// SPDX-License-Identifier: MIT

#include <cblas.h>

#include "composite.hpp"

namespace {

struct gemm {
  using executor = bench::on_team;
  static void set_threads(int n) { openblas_set_num_threads(n); }
  static void run(std::size_t rows, std::size_t cols, std::size_t depth, bench::factor a, bench::factor b, float beta,
                  float* c) {
    const auto order = [](const bench::factor& f) { return f.transposed ? CblasTrans : CblasNoTrans; };
    const auto n = [](std::size_t i) { return static_cast<blasint>(i); };
    if (rows == 1 && !a.transposed) {
      const CBLAS_TRANSPOSE turned = b.transposed ? CblasNoTrans : CblasTrans;
      cblas_sgemv(CblasRowMajor, turned, n(b.transposed ? cols : depth), n(b.cols), 1, b.data, n(b.cols), a.data, 1,
                  beta, c, 1);
      return;
    }
    cblas_sgemm(CblasRowMajor, order(a), order(b), n(rows), n(cols), n(depth), 1, a.data, n(a.cols), b.data, n(b.cols),
                beta, c, n(cols));
  }
};

}  // namespace

int main(int argc, char** argv) { return bench::peer_main<gemm>("peer_openblas", argc, argv); }

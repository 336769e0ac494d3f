// SPDX-License-Identifier: MIT

#include <omp.h>

#include <oneapi/dnnl/dnnl.h>

#include <swiglu/exec/openmp.hpp>

#include "composite.hpp"

namespace {

struct gemm {
  using executor = swiglu::openmp;
  static void set_threads(int n) { omp_set_num_threads(n); }
  static void run(std::size_t rows, std::size_t cols, std::size_t depth, bench::factor a, bench::factor b, float beta,
                  float* c) {
    const auto n = [](std::size_t i) { return static_cast<dnnl_dim_t>(i); };
    dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', n(rows), n(cols), n(depth), 1, a.data, n(a.cols),
               b.data, n(b.cols), beta, c, n(cols));
  }
};

}  // namespace

int main(int argc, char** argv) { return bench::peer_main<gemm>("peer_onednn", argc, argv); }

// SPDX-License-Identifier: MIT

#include "composite.hpp"

#include <blis.h>  // after ours: it defines macros

namespace {

struct gemm {
  static void set_threads(int n) { bli_thread_set_num_threads(n); }
  static void run(std::size_t rows, std::size_t cols, std::size_t depth, bench::factor a, bench::factor b, float beta,
                  float* c) {
    const auto n = [](std::size_t i) { return static_cast<dim_t>(i); };
    const auto strides = [&](const bench::factor& f) {
      return f.transposed ? std::pair{inc_t{1}, n(f.cols)} : std::pair{n(f.cols), inc_t{1}};
    };
    const auto [a_row, a_col] = strides(a);
    const auto [b_row, b_col] = strides(b);
    float one = 1;
    bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, n(rows), n(cols), n(depth), &one, const_cast<float*>(a.data), a_row,
              a_col, const_cast<float*>(b.data), b_row, b_col, &beta, c, n(cols), 1);
  }
};

}  // namespace

int main(int argc, char** argv) { return bench::peer_main<gemm>("peer_blis", argc, argv); }

// SPDX-License-Identifier: MIT

#include <cstdlib>
#include <string>

#include "composite.hpp"

#include <blis.h>  // after ours: it defines macros

namespace {

struct gemm {
  using executor = bench::on_team;
  /// BLIS tells an Intel core that has AVX-512 by its name, and runs AVX2 on one whose name it does not know, such as
  /// most virtual machines have: a third of the speed is lost. BLIS_ARCH_TYPE is its own switch for that.
  static void choose_kernels() {
#if defined(__x86_64__)
    if (__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
      setenv("BLIS_ARCH_TYPE", std::to_string(BLIS_ARCH_SKX).c_str(), 0);  // the user's own choice stands
#endif
  }
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
    if (rows == 1 && !a.transposed) {
      bli_sgemv(BLIS_TRANSPOSE, BLIS_NO_CONJUGATE, n(depth), n(cols), &one, const_cast<float*>(b.data), b_row, b_col,
                const_cast<float*>(a.data), 1, &beta, c, 1);
      return;
    }
    bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, n(rows), n(cols), n(depth), &one, const_cast<float*>(a.data), a_row,
              a_col, const_cast<float*>(b.data), b_row, b_col, &beta, c, n(cols), 1);
  }
};

}  // namespace

int main(int argc, char** argv) {
  gemm::choose_kernels();
  return bench::peer_main<gemm>("peer_blis", argc, argv);
}

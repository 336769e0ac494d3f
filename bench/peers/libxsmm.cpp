// SPDX-License-Identifier: MIT

// Kernels that libxsmm generates at run time for one small shape each. It has none for a transposed operand on one
// side, so that one is transposed first, by libxsmm as well. Larger shapes are not its business: there it calls a BLAS.

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <vector>

#include <libxsmm.h>

#include "composite.hpp"

namespace {

struct gemm {
  using executor = swiglu::serial;

  /// libxsmm's matrices are column-major: the transpose of each of ours, and of the product.
  static void run(std::size_t rows, std::size_t cols, std::size_t depth, bench::factor a, bench::factor b, float beta,
                  float* c) {
    const auto n = [](std::size_t i) { return static_cast<libxsmm_blasint>(i); };
    if (b.transposed) b = transpose(b, cols, depth, 0);
    const float one = 1;
    const libxsmm_blasint ldb = n(b.cols), ldc = n(cols);
    const auto kernel = [&](bool transposed) {
      const int flags = transposed ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
      const libxsmm_blasint lda = n(a.cols);
      return libxsmm_smmdispatch(n(cols), n(rows), n(depth), &ldb, &lda, &ldc, &one, &beta, &flags, nullptr);
    };
    libxsmm_smmfunction found = kernel(a.transposed);
    if (found == nullptr && a.transposed) {
      a = transpose(a, depth, rows, 1);
      found = kernel(false);
    }
    if (found == nullptr) throw std::runtime_error("libxsmm has no kernel for this shape on this machine");
    found(b.data, a.data, c);
  }

 private:
  /// A copy of the memory [rows, f.cols], transposed.
  static bench::factor transpose(bench::factor f, std::size_t rows, std::size_t cols, std::size_t slot) {
    static std::vector<float> copies[2];
    copies[slot].resize(rows * cols);
    libxsmm_otrans(copies[slot].data(), f.data, sizeof(float), static_cast<libxsmm_blasint>(cols),
                   static_cast<libxsmm_blasint>(rows), static_cast<libxsmm_blasint>(f.cols),
                   static_cast<libxsmm_blasint>(rows));
    return {copies[slot].data(), rows, false};
  }
};

}  // namespace

int main(int argc, char** argv) {
  libxsmm_init();
  bench::check_products<gemm>();
  for (const bench::shape s : {bench::shapes[0], bench::shapes[1]})
    bench::add("peer_libxsmm", s, 1, [=] { return std::make_unique<bench::composite<gemm>>(s, swiglu::serial()); });
  return bench::run_all(argc, argv);
}

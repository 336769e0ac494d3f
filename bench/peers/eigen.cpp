// SPDX-License-Identifier: MIT

#include <Eigen/Core>

#include <swiglu/exec/openmp.hpp>

#include "composite.hpp"

namespace {

struct gemm {
  using executor = swiglu::openmp;
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  static void set_threads(int n) { Eigen::setNbThreads(n); }
  static void run(std::size_t rows, std::size_t cols, std::size_t depth, bench::factor a, bench::factor b, float beta,
                  float* c) {
    const auto n = [](std::size_t i) { return static_cast<Eigen::Index>(i); };
    const auto in_memory = [&](const bench::factor& f, std::size_t r, std::size_t k) {
      return Eigen::Map<const matrix>(f.data, n(f.transposed ? k : r), n(f.transposed ? r : k));
    };
    const auto left = in_memory(a, rows, depth), right = in_memory(b, depth, cols);
    if (rows == 1 && !a.transposed) {
      const Eigen::Map<const Eigen::RowVectorXf> row(a.data, n(depth));
      Eigen::Map<Eigen::RowVectorXf> out(c, n(cols));
      if (beta == 0) out.setZero();
      if (b.transposed)
        out.noalias() += row * right.transpose();
      else
        out.noalias() += row * right;
      return;
    }
    Eigen::Map<matrix> to(c, n(rows), n(cols));
    if (beta == 0) to.setZero();
    if (a.transposed)
      to.noalias() += left.transpose() * right;
    else if (b.transposed)
      to.noalias() += left * right.transpose();
    else
      to.noalias() += left * right;
  }
};

}  // namespace

int main(int argc, char** argv) { return bench::peer_main<gemm>("peer_eigen", argc, argv); }

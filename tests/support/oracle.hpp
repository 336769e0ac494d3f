// SPDX-License-Identifier: MIT
#pragma once

// What results are compared with: matrices of double, computed the naive way and in the obvious order.

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <swiglu/panels.hpp>

namespace test {

/// A matrix of double.
class matrix {
 public:
  matrix() = default;
  matrix(std::size_t rows, std::size_t cols) : rows_(rows), cols_(cols), elements_(rows * cols) {}

  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  double& operator()(std::size_t r, std::size_t c) { return elements_[r * cols_ + c]; }
  double operator()(std::size_t r, std::size_t c) const { return elements_[r * cols_ + c]; }

 private:
  std::size_t rows_ = 0, cols_ = 0;
  std::vector<double> elements_;
};

/// Element (r, c) of a tensor or view of any rank (its leading extents collapsed), of panels, or of a matrix.
template <class X>
auto element(const X& x, std::size_t r, std::size_t c) {
  if constexpr (requires { x.pitch(); })
    return x.data()[r * x.pitch() + c];
  else if constexpr (requires { x.capacity(); })
    return x.view()(r, c);
  else
    return x(r, c);
}

/// f(r, c) for every element.
template <class F>
matrix generate(std::size_t rows, std::size_t cols, F f) {
  matrix m(rows, cols);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) m(r, c) = static_cast<double>(f(r, c));
  return m;
}
template <class X>
matrix to_matrix(const X& x) {
  return generate(x.rows(), x.cols(), [&](std::size_t r, std::size_t c) { return element(x, r, c); });
}
/// f of the elements of matrices of one shape.
template <class F, class... M>
matrix each(F f, const matrix& first, const M&... other) {
  return generate(first.rows(), first.cols(),
                  [&](std::size_t r, std::size_t c) { return f(first(r, c), other(r, c)...); });
}
inline matrix transpose(const matrix& m) {
  return generate(m.cols(), m.rows(), [&](std::size_t r, std::size_t c) { return m(c, r); });
}
inline matrix magnitudes(const matrix& m) {
  return each([](double x) { return std::abs(x); }, m);
}
inline matrix operator+(const matrix& a, const matrix& b) {
  return each([](double x, double y) { return x + y; }, a, b);
}
inline matrix operator*(double factor, const matrix& m) {
  return each([=](double x) { return factor * x; }, m);
}
/// The matrix product.
inline matrix product(const matrix& a, const matrix& b) {
  matrix sum(a.rows(), b.cols());
  for (std::size_t r = 0; r < a.rows(); ++r)
    for (std::size_t k = 0; k < a.cols(); ++k)
      for (std::size_t c = 0; c < b.cols(); ++c) sum(r, c) += a(r, k) * b(k, c);
  return sum;
}
/// By how much the elements of a product of numbers of T may differ from the exact ones, in whatever order it is summed
/// (Higham, Accuracy and Stability of Numerical Algorithms, 3.5).
template <class T>
matrix product_bound(const matrix& a, const matrix& b) {
  const double unit = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
  return 1.01 * static_cast<double>(a.cols() + 1) * unit * product(magnitudes(a), magnitudes(b));
}

// The formulas, for double or long double.

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}
template <class T>
T silu(T x) {
  return x * sigmoid(x);
}
template <class T>
T silu_grad(T x) {
  return sigmoid(x) * (1 + x * sigmoid(-x));
}

}  // namespace test

// SPDX-License-Identifier: MIT

// What one writes without a library: the products as plain loops, in the order that the compiler vectorises best.

#include <algorithm>
#include <cstddef>

#include "../stages.hpp"
#include "composite.hpp"

namespace {

struct loops {
  using executor = swiglu::serial;
  static void run(std::size_t rows, std::size_t cols, std::size_t depth, bench::factor a, bench::factor b, float beta,
                  float* c) {
    for (std::size_t i = 0; i < rows; ++i) {
      float* const to = c + i * cols;
      if (beta == 0) std::fill(to, to + cols, 0.0f);
      for (std::size_t k = 0; k < depth; ++k) {
        const float x = a.transposed ? a.data[k * a.cols + i] : a.data[i * a.cols + k];
        const float* const row = b.data + (b.transposed ? k : k * b.cols);
        const std::size_t step = b.transposed ? b.cols : 1;
        if (step == 1)
          for (std::size_t j = 0; j < cols; ++j) to[j] += x * row[j];
        else
          for (std::size_t j = 0; j < cols; ++j) to[j] += x * row[j * step];
      }
    }
  }
};

}  // namespace

void bench::add_naive() {
  check_products<loops>();
  for (const shape s : {shapes[0], shapes[1]})
    add("naive", s, 1, [=] { return std::make_unique<composite<loops>>(s, swiglu::serial()); });
}

// SPDX-License-Identifier: MIT

#include "layer.hpp"

#include <cmath>
#include <cstdio>

int main(int arguments, char**) {
  swiglu::tensor<float, 5, 24> x;
  swiglu::tensor<float, 24, 40> w;
  for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i % 7) / 7 - 0.4f;
  for (std::size_t i = 0; i < w.size(); ++i) w.data()[i] = static_cast<float>(i % 11) / 11 - 0.5f;

  const result a = layer_1(x, w), b = layer_2(x, w);
  float largest = 0;
  for (std::size_t i = 0; i < a.out.size(); ++i)
    largest = std::fmax(largest, std::fabs(a.out.data()[i] - b.out.data()[i]));
  std::printf("%s and %s: largest difference %g\n", a.abi.c_str(), b.abi.c_str(), static_cast<double>(largest));
  if (largest > 1e-6f) return 1;
  // Not the same instruction set twice, unless this machine has no other.
  return a.abi != b.abi || arguments > 1 ? 0 : 1;
}

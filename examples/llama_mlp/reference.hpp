// SPDX-License-Identifier: MIT
#pragma once

// The same layer in plain loops and double precision, from the tensors as the file has them.

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "layer.hpp"

namespace llama {

/// y [outputs] = W x, W [outputs, inputs] row-major.
inline std::vector<double> linear(std::span<const float> w, std::span<const double> x) {
  std::vector<double> y(w.size() / x.size());
  for (std::size_t o = 0; o < y.size(); ++o)
    for (std::size_t i = 0; i < x.size(); ++i) y[o] += static_cast<double>(w[o * x.size() + i]) * x[i];
  return y;
}

/// The output of layer `layer` for one token x [hidden].
inline std::vector<double> reference(safetensors::reader& file, std::size_t layer, std::span<const double> x) {
  const auto read = [&](const char* projection) {
    const safetensors::tensor_info& tensor = file.header().find(tensor_name(layer, projection));
    std::vector<float> elements(tensor.elements());
    file.read(tensor, elements);
    return elements;
  };
  const std::vector<double> gate = linear(read("gate_proj"), x), up = linear(read("up_proj"), x);
  std::vector<double> h(gate.size());
  for (std::size_t i = 0; i < h.size(); ++i) h[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  return linear(read("down_proj"), h);
}

}  // namespace llama

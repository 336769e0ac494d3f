// SPDX-License-Identifier: MIT
#pragma once

// The MLP of one layer of a Llama-style checkpoint, as the library's weights.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <swiglu/mlp.hpp>

#include "safetensors.hpp"

namespace llama {

/// The three tensors' names, as Hugging Face writes them.
inline std::string tensor_name(std::size_t layer, const char* projection) {
  return "model.layers." + std::to_string(layer) + ".mlp." + projection + ".weight";
}

/// Hidden and intermediate extents of a layer of the file. Throws safetensors::error unless gate_proj and up_proj are
/// [intermediate, hidden] and down_proj is [hidden, intermediate].
inline std::pair<std::size_t, std::size_t> shape_of(const safetensors::header& file, std::size_t layer) {
  const auto shape = [&](const char* projection) { return file.find(tensor_name(layer, projection)).shape; };
  const std::vector<std::uint64_t> gate = shape("gate_proj"), up = shape("up_proj"), down = shape("down_proj");
  if (gate.size() != 2 || up != gate || down != std::vector<std::uint64_t>{gate[1], gate[0]})
    throw safetensors::error("gate_proj, up_proj and down_proj of layer " + std::to_string(layer) +
                             " do not have the shapes [n, m], [n, m], [m, n]");
  return {gate[1], gate[0]};
}

/// A layer that takes its weights as the file has them, [outputs, inputs].
template <std::size_t Hidden, std::size_t Intermediate>
using mlp = swiglu::mlp<float, swiglu::dims{.hidden = Hidden, .intermediate = Intermediate, .layout = swiglu::out_in}>;

/// The weights of layer `layer`, float32 or bfloat16 in the file. Throws safetensors::error.
template <std::size_t Hidden, std::size_t Intermediate>
typename mlp<Hidden, Intermediate>::weights read_layer(safetensors::reader& file, std::size_t layer) {
  if (shape_of(file.header(), layer) != std::pair(Hidden, Intermediate))
    throw safetensors::error("layer " + std::to_string(layer) + " has other extents than " + std::to_string(Hidden) +
                             " x " + std::to_string(Intermediate));
  typename mlp<Hidden, Intermediate>::weights w;
  const auto read = [&](const char* projection, auto& to) {
    file.read(file.header().find(tensor_name(layer, projection)), to.span());
  };
  read("gate_proj", w.gate), read("up_proj", w.up), read("down_proj", w.down);
  return w;
}

}  // namespace llama

// SPDX-License-Identifier: MIT
#pragma once

// A checkpoint: everything that decides how a training run goes on. It knows nothing of the mesh: the tensors are
// whole, so that a run may resume on another one. Random numbers need no state: the batch of a step follows from seed
// and step.
//
// The file is a safetensors file (../support/safetensors.hpp) of float32 tensors, which any tool of that format opens:
//
//     weights.embedding         [alphabet, width]         then the same names with first_moments. and second_moments.
//     weights.blocks.0.norm     [hidden]
//     weights.blocks.0.gate     [hidden, intermediate]    up alike; down [intermediate, hidden]
//     weights.norm              [hidden]
//     weights.head              [hidden, alphabet]
//
// Its metadata has the shape of the model, the recipe, the step (how many are done), the fingerprint of the text, and a
// checksum: FNV-1a of all other metadata and of the tensors' bytes.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "recipe.hpp"
#include "shape.hpp"

namespace char_lm {

/// Weights, first and second moments, each as one row of numbers.
template <class T>
using snapshot = std::array<std::vector<T>, 3>;

struct checkpoint {
  model_shape shape;
  std::uint64_t alphabet, fingerprint;
  std::uint64_t step;
  recipe made_with;
  snapshot<float> state;
};

/// Writes a temporary file beside `path`, then renames it: at every moment `path` is the old checkpoint or the new one.
/// Throws std::runtime_error if that fails; the old one remains.
void save_checkpoint(const std::string& path, const checkpoint& c);

/// Throws bad_input, before it has allocated the tensors, unless the file is a whole and undamaged checkpoint of a
/// model of this shape.
checkpoint load_checkpoint(const std::string& path, const model_shape& shape);

/// Throws bad_input if no file can be put at `path`, or if that would replace something that is no checkpoint. Touches
/// nothing.
void check_writable(const std::string& path);

/// All values of `from`, in the order of its list(), and back. `values` has to have the right size.
template <class Parameters>
auto flatten(Parameters& from) {
  std::vector<typename Parameters::value_type> values;
  for (const auto& p : from.list()) values.insert(values.end(), p.values.begin(), p.values.end());
  return values;
}
template <class Parameters, class T>
void unflatten(const std::vector<T>& values, Parameters& to) {
  std::size_t at = 0;
  for (const auto& p : to.list()) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(at), p.values.size(), p.values.begin());
    at += p.values.size();
  }
}

}  // namespace char_lm

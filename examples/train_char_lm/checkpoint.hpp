// SPDX-License-Identifier: MIT
#pragma once

// A checkpoint: everything that decides how a training run goes on. It knows nothing of the mesh: the tensors are
// whole, so that a run may resume on another one. Random numbers need no state: the batch of a step follows from seed
// and step.
//
// The file, all numbers in the byte order of the machine (another one's is refused by its `byte_order`):
//
//     bytes   8  "char_lm\n"
//     uint64  16 format, byte_order, then context, width, intermediate, blocks, alphabet, fingerprint of the text,
//                step (how many are done), seed, steps, batch, and as doubles rate, decay, clip; then values: how many
//                floats each of the following sections has
//     float   3 sections: weights, first and second moments, each the parameters in the order of parameters::list()
//     uint64  1  checksum: FNV-1a of all bytes before it

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

// SPDX-License-Identifier: MIT
#include "layer.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "../train_char_lm/files.hpp"
#include "reference.hpp"

namespace {

constexpr std::size_t hidden = 24, intermediate = 40, layer = 3;
using mlp = llama::mlp<hidden, intermediate>;

std::vector<float> numbers(std::size_t n, unsigned seed) {
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-24F - 0.5F;
  return values;
}

/// A checkpoint of one layer. `wrong` is put in the place of the shape of down_proj, if it has extents.
std::string make_file(const temporary_folder& folder, const std::string& dtype, std::vector<std::uint64_t> wrong = {}) {
  const std::vector<float> gate = numbers(hidden * intermediate, 1), up = numbers(hidden * intermediate, 2),
                           down = numbers(hidden * intermediate, 3), other = numbers(7, 4);
  if (wrong.empty()) wrong = {hidden, intermediate};
  const std::vector<safetensors::entry> tensors{
      {"model.layers.3.mlp.down_proj.weight", wrong, down, dtype},
      {"model.layers.3.input_layernorm.weight", {7}, other, dtype},
      {"model.layers.3.mlp.gate_proj.weight", {intermediate, hidden}, gate, dtype},
      {"model.layers.3.mlp.up_proj.weight", {intermediate, hidden}, up, dtype},
  };
  safetensors::write(folder.path(dtype), tensors, {{"format", "pt"}});
  return folder.path(dtype);
}

}  // namespace

TEST_CASE("a layer of a checkpoint computes what plain loops over its tensors compute") {
  const temporary_folder folder;
  for (const char* dtype : {"F32", "BF16"}) {
    safetensors::reader file(make_file(folder, dtype));
    const mlp::weights w = llama::read_layer<hidden, intermediate>(file, layer);
    constexpr std::size_t tokens = 5;
    const std::vector<float> x = numbers(tokens * hidden, 9);
    swiglu::tensor<float, swiglu::dynamic, hidden> out(tokens);
    mlp::saved saved(tokens);
    mlp::workspace scratch(tokens);
    mlp::forward(swiglu::view<const float, swiglu::dynamic, hidden>(x, {tokens}), w, saved, scratch, out);
    double worst = 0;
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::vector<double> token(x.begin() + static_cast<std::ptrdiff_t>(t * hidden),
                                      x.begin() + static_cast<std::ptrdiff_t>((t + 1) * hidden));
      const std::vector<double> expected = llama::reference(file, layer, token);
      for (std::size_t i = 0; i < hidden; ++i)
        worst = std::fmax(worst, std::fabs(expected[i] - static_cast<double>(out(t, i))));
    }
    CAPTURE(dtype);
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("the weights are those of the file, row by row") {
  const temporary_folder folder;
  safetensors::reader file(make_file(folder, "F32"));
  const auto w = llama::read_layer<hidden, intermediate>(file, layer);
  const std::vector<float> gate = numbers(hidden * intermediate, 1), down = numbers(hidden * intermediate, 3);
  CHECK(w.gate(7, 2) == gate[7 * hidden + 2]);
  CHECK(w.down(2, 7) == down[2 * intermediate + 7]);
}

TEST_CASE("another layer, other extents and shapes that do not belong together are refused") {
  const temporary_folder folder;
  safetensors::reader file(make_file(folder, "F32"));
  CHECK(llama::shape_of(file.header(), layer) == std::pair(hidden, intermediate));
  CHECK_THROWS_WITH_AS(llama::shape_of(file.header(), 4), "there is no tensor \"model.layers.4.mlp.gate_proj.weight\"",
                       safetensors::error);
  CHECK_THROWS_WITH_AS((llama::read_layer<hidden, 2 * intermediate>(file, layer)),
                       "layer 3 has other extents than 24 x 80", safetensors::error);
  safetensors::reader swapped(make_file(folder, "F32", {intermediate, hidden}));
  CHECK_THROWS_WITH_AS(llama::shape_of(swapped.header(), layer), doctest::Contains("do not have the shapes"),
                       safetensors::error);
}

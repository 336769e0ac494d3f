// SPDX-License-Identifier: MIT

// Runs the MLP of one layer of a Llama-style checkpoint: a file as Hugging Face writes it, or one part of a large one.
//
//     llama_mlp model.safetensors [LAYER]     layer 0 if none is named
//     llama_mlp                               makes a small checkpoint, runs its layer 1, and removes it
//
// and compares one token with the same layer in plain loops and double precision. Exits 1 if they disagree, 2 if the
// file cannot be used.

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <swiglu/mlp.hpp>

#include "layer.hpp"
#include "reference.hpp"

namespace {

// A layer's extents are template arguments: these are compiled in. One more is one more line.
struct extents {
  std::size_t hidden, intermediate;
  const char* of;
};
constexpr extents known[] = {
    {64, 176, "the checkpoint that this program makes"},
    {2048, 8192, "Llama 3.2 1B"},
    {4096, 14336, "Llama 3 8B, Mistral 7B"},
};
constexpr std::size_t tokens = 64;

/// Two layers of random weights, in bfloat16.
void make_checkpoint(const std::string& path) {
  constexpr std::size_t hidden = known[0].hidden, intermediate = known[0].intermediate;
  std::mt19937 random(1);
  std::vector<std::vector<float>> memory;
  std::vector<safetensors::entry> tensors;
  for (std::size_t layer = 0; layer < 2; ++layer)
    for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) {
      const bool down = std::string(projection) == "down_proj";
      const std::size_t outputs = down ? hidden : intermediate, inputs = down ? intermediate : hidden;
      std::vector<float>& w = memory.emplace_back(outputs * inputs);
      for (float& x : w) x = (static_cast<float>(random() >> 8) * 0x1p-23F - 1) / std::sqrt(static_cast<float>(inputs));
      tensors.push_back({llama::tensor_name(layer, projection), {outputs, inputs}, w, "BF16"});
    }
  safetensors::write(path, tensors, {{"format", "pt"}});
}

/// The largest error of the last token's output, relative to the largest output.
template <std::size_t Hidden, std::size_t Intermediate>
double run(safetensors::reader& file, std::size_t layer) {
  using mlp = llama::mlp<Hidden, Intermediate>;
  const typename mlp::weights w = llama::read_layer<Hidden, Intermediate>(file, layer);

  std::mt19937 random(2);
  swiglu::tensor<float, swiglu::dynamic, Hidden> x(tokens), out(tokens);
  for (float& v : x.span()) v = static_cast<float>(random() >> 8) * 0x1p-23F - 1;
  typename mlp::saved saved(tokens);
  typename mlp::workspace scratch(tokens);
  double seconds = 0;
  for (int run = 0; run < 5; ++run) {  // the first touches the memory for the first time
    const auto before = std::chrono::steady_clock::now();
    mlp::forward(x, w, saved, scratch, out);
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    seconds = run == 0 ? took : std::fmin(seconds, took);
  }
  std::printf("%zu tokens through layer %zu, %zu x %zu: %.3f ms, %.1f GFLOP/s\n", tokens, layer, Hidden, Intermediate,
              1e3 * seconds, mlp::forward_flops(tokens) / seconds * 1e-9);

  std::vector<double> token(Hidden);
  for (std::size_t i = 0; i < Hidden; ++i) token[i] = static_cast<double>(x(tokens - 1, i));
  const std::vector<double> expected = llama::reference(file, layer, token);
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < Hidden; ++i) {
    largest = std::fmax(largest, std::fabs(expected[i]));
    error = std::fmax(error, std::fabs(expected[i] - static_cast<double>(out(tokens - 1, i))));
  }
  return error / largest;
}

template <std::size_t Which = 0>
double run_any(safetensors::reader& file, std::size_t layer) {
  if constexpr (Which == std::size(known)) {
    const auto [hidden, intermediate] = llama::shape_of(file.header(), layer);
    std::string all;
    for (const extents& e : known)
      all += "\n  " + std::to_string(e.hidden) + " x " + std::to_string(e.intermediate) + "  " + e.of;
    throw safetensors::error("a layer of " + std::to_string(hidden) + " x " + std::to_string(intermediate) +
                             " is not compiled in; these are:" + all);
  } else {
    constexpr extents e = known[Which];
    if (llama::shape_of(file.header(), layer) == std::pair(e.hidden, e.intermediate))
      return run<e.hidden, e.intermediate>(file, layer);
    return run_any<Which + 1>(file, layer);
  }
}

struct made_file {
  std::string path;
  ~made_file() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove(path, ignored);
  }
};

}  // namespace

int main(int argc, char** argv) {
  try {
    made_file made;
    std::size_t layer = argc < 2 ? 1 : 0;
    if (argc > 2) {
      const std::string text = argv[2];
      const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), layer);
      if (argc > 3 || failed != std::errc() || end != text.data() + text.size())
        throw safetensors::error("expected a file and the number of a layer, got " + text);
    }
    if (argc < 2) {
      made.path =
          (std::filesystem::temp_directory_path() / ("llama_mlp_" + std::to_string(std::random_device()()))).string();
      make_checkpoint(made.path);
    }
    safetensors::reader file(argc < 2 ? made.path : argv[1]);
    const double error = run_any(file, layer);
    std::printf("largest error of a token against plain loops in double precision: %.2g of the largest output\n",
                error);
    return error <= 1e-5 ? 0 : 1;
  } catch (const std::exception& wrong) {
    std::cerr << "llama_mlp: " << wrong.what() << "\n";
    return 2;
  }
}

// SPDX-License-Identifier: MIT

// Every micro-kernel that the engine can choose, alone: what no blocking can make faster. The right operand is one
// packed panel that stays in L1 beside the rows of the left, or as many as fill half of L2, visited in turn as the
// engine does.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

#include <swiglu/gemm/kernel_table.hpp>

#include "layer_case.hpp"
#include "stages.hpp"

namespace {

using swiglu::pack;

struct tile_shape {
  std::size_t rows, vectors;
  bool transposed;
  std::size_t depth, panels;

  std::size_t width() const { return vectors * pack<float>::size; }
  bench::shape as_product() const { return {rows, depth, panels * width()}; }
};

class problem {
 public:
  explicit problem(tile_shape s)
      : s_(s), left_(left_size(s)), right_(s.depth * s.width() * s.panels), tile_(s.rows * s.width()) {
    bench::fill(left_.span(), 1, 1), bench::fill(right_.span(), 1, 2);
  }
  void run() {
    const auto kernel = swiglu::select_kernel<float, swiglu::most_vectors>(s_.rows, s_.vectors, s_.transposed);
    swiglu::kernel_operands<float> o{};
    o.left = left_.data();
    o.left_stride = s_.rows * swiglu::strip_columns<float>;
    o.left_run = swiglu::strip_columns<float>;
    o.right_pitch = s_.width();
    o.depth = s_.depth;
    o.tile = tile_.data();
    for (std::size_t panel = 0; panel < s_.panels; ++panel) {
      for (std::size_t v = 0; v < s_.vectors; ++v)
        o.right[v] = right_.data() + panel * s_.depth * s_.width() + v * pack<float>::size;
      kernel(o);
    }
  }

 private:
  static std::size_t left_size(tile_shape s) {
    constexpr std::size_t strip = swiglu::strip_columns<float>;
    return s.transposed ? s.depth * strip : swiglu::round_up(s.depth, strip) * s.rows;
  }
  tile_shape s_;
  swiglu::tensor<float, swiglu::dynamic> left_, right_, tile_;
};

void add_tile(tile_shape s, const char* where) {
  const std::string variant =
      std::to_string(s.rows) + "x" + std::to_string(s.vectors) + (s.transposed ? "_transposed_" : "_") + where;
  const std::string name = bench::name_of("ukernel", variant, s.as_product(), 1);
  bench::register_run(name, [=](benchmark::State& state) {
    auto& [p, clock] = bench::problem_of(
        name, [&] { return std::pair(std::make_unique<problem>(s), std::make_unique<bench::slices>(1)); });
    bench::run_step(state, *clock, bench::forward_flops(s.as_product()) / 3, [&p = *p] { p.run(); });
  });
}

}  // namespace

void bench::add_micro_kernels() {
  constexpr auto caches = swiglu::default_caches;
  for (std::size_t vectors = 1; vectors <= swiglu::most_vectors; ++vectors) {
    const std::size_t most = swiglu::tile_rows(vectors), line = vectors * pack<float>::size * sizeof(float);
    for (const std::size_t rows :
         {std::size_t{12}, std::size_t{8}, std::size_t{6}, std::size_t{4}, std::size_t{2}, std::size_t{1}})
      for (const bool transposed : {false, true}) {
        const std::size_t highest = transposed ? std::min(most, swiglu::strip_columns<float>) : most;
        if (swiglu::next_tile(highest, rows) != rows) continue;
        const std::size_t in_l1 =
            caches.l1 / 4 * 3 / (line + (transposed ? swiglu::strip_columns<float> : rows) * sizeof(float)) / 32 * 32;
        const std::size_t deep = swiglu::most_depth<float>(vectors);
        add_tile({rows, vectors, transposed, in_l1, 1}, "l1");
        add_tile({rows, vectors, transposed, deep, std::max<std::size_t>(caches.l2 / 2 / (deep * line), 1)}, "l2");
      }
  }
}

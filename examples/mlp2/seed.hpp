// SPDX-License-Identifier: MIT
#pragma once

// The seed program on its 2 x 2 mesh: sequence 4, batch 8, hidden 16, intermediate 32; forward leaves `out` unreduced
// over the tensor axis, backward sums grad_x over it and the weight gradients over the data axis. Every value that the
// program names is compared with the golden files (float64, tests/golden/mesh2x2).

#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <swiglu/comm/launch.hpp>
#include <swiglu/mlp.hpp>

#include "npy.hpp"
#include "recording.hpp"

namespace seed {

inline constexpr std::size_t sequence = 4, batch = 8, hidden = 16, intermediate = 32, data_ranks = 2, tensor_ranks = 2;
inline constexpr std::size_t tokens = sequence * batch / data_ranks;

/// One step of the program on one device.
struct step {
  std::string operation, value;
  bool stored;        ///< the schedule keeps it in memory; else it is recomputed here from what the schedule keeps
  double difference;  ///< largest norm-wise relative difference from the golden values
};

/// What one device did.
struct device {
  std::vector<step> forward, backward;
  std::vector<recorded_call> data_calls, tensor_calls;
};

/// || a - b || / || b ||.
inline double relative_difference(std::span<const float> a, std::span<const double> b) {
  if (a.size() != b.size()) return std::nan("");
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

/// The golden files of a directory, read on demand.
class golden {
 public:
  explicit golden(std::string directory) : directory_(std::move(directory)) {}
  std::vector<double> global(const std::string& name) const {
    return read_npy(directory_ + "/global_" + name + ".npy");
  }
  std::vector<double> rank(std::size_t d, const std::string& name) const {
    return read_npy(directory_ + "/rank" + std::to_string(d) + "_" + name + ".npy");
  }
  template <class Tensor>
  void load(const std::string& name, Tensor& to) const {
    const std::vector<double> values = global(name);
    swiglu::check_extent(name, to.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) to.data()[i] = static_cast<float>(values[i]);
  }

 private:
  std::string directory_;
};

using swiglu::evaluate;
using swiglu::product;
using swiglu::transpose;
using matrix = swiglu::tensor<float, swiglu::dynamic, swiglu::dynamic>;

/// Any matrix or expression, row-major.
template <class Expression>
matrix value_of(const Expression& e, std::size_t rows, std::size_t cols) {
  matrix m(rows, cols);
  evaluate(m <<= e);
  return m;
}

/// Runs the program under a schedule and compares. Throws what the library and the files throw.
template <swiglu::schedule Schedule>
std::array<device, data_ranks * tensor_ranks> run(const golden& gold) {
  using whole = swiglu::mlp<float, swiglu::dims{.hidden = hidden, .intermediate = intermediate}>;
  using layer =
      swiglu::mlp<float, swiglu::dims{.hidden = hidden, .intermediate = intermediate, .tensor_parallel = tensor_ranks},
                  Schedule>;
  constexpr std::size_t columns = intermediate / tensor_ranks;
  constexpr bool per_operation = Schedule.cut == swiglu::schedule::kernels::unfused;

  swiglu::tensor<float, sequence, batch, hidden> global_x, global_grad_out;
  typename whole::weights global;
  gold.load("x", global_x), gold.load("grad_out", global_grad_out);
  gold.load("w1", global.gate), gold.load("w3", global.up), gold.load("w2", global.down);

  std::array<device, data_ranks * tensor_ranks> devices;
  swiglu::run_ranks(data_ranks, tensor_ranks, [&](auto& rank_axes) {
    recording data(rank_axes.data), tensor(rank_axes.tensor);
    const swiglu::mesh axes{data, tensor};
    const auto d = static_cast<std::size_t>(axes.rank()), t = static_cast<std::size_t>(tensor.rank());
    const auto batch_rank = static_cast<std::size_t>(data.rank());

    swiglu::tensor<float, tokens, hidden> x, grad_out, out, grad_x;
    typename layer::weights w;
    typename layer::gradients g;
    swiglu::shard_batch(std::as_const(global_x).view(), batch_rank, data_ranks, x.view());
    swiglu::shard_batch(std::as_const(global_grad_out).view(), batch_rank, data_ranks, grad_out.view());
    swiglu::shard_weights(global, t, w);

    typename layer::saved s(tokens);
    typename layer::workspace ws(tokens);
    layer::template forward<swiglu::reduction::unreduced>(x, w, s, ws, out, axes);
    layer::backward(grad_out, x, w, s, ws, grad_x, g, axes);

    device& me = devices[d];
    me.data_calls = data.calls, me.tensor_calls = tensor.calls;
    const auto difference = [&](std::span<const float> mine, const std::string& name) {
      return relative_difference(mine, gold.rank(d, name));
    };
    const auto compare = [&](const matrix& mine, const std::string& name) { return difference(mine.span(), name); };
    // The value of a buffer of the n-th all-reduce of an axis, before or after it.
    const auto travelled = [](const auto& calls, const std::string& name, bool after) -> std::span<const float> {
      for (const recorded_call& call : calls)
        for (const auto& buffer : call.buffers)
          if (buffer.name == name) return after ? buffer.after : buffer.before;
      return {};
    };

    const swiglu::hidden_values hidden_of{s, ws};
    const auto values = [](const auto& v) { return value_of(v, tokens, intermediate / tensor_ranks); };
    const matrix h1 = values(hidden_of.h1()), h3 = values(hidden_of.h3()), h = values(hidden_of.h()),
                 g_h1 = values(ws.g_h1()), g_h3 = values(ws.g_h3());
    const auto transposed = [](const matrix& m) { return value_of(transpose(m), m.cols(), m.rows()); };
    matrix sigmoid, grad_out_transposed, g_h, g_h1_transposed, g_h3_transposed, g_x_h1, g_x_h3;
    if constexpr (per_operation) {
      sigmoid = values(hidden_of.sigmoid());
      grad_out_transposed = value_of(ws.grad_out_transposed(), hidden, tokens);
      g_h = values(ws.g_h());
      g_h1_transposed = value_of(ws.g_h1_transposed(), columns, tokens);
      g_h3_transposed = value_of(ws.g_h3_transposed(), columns, tokens);
    } else {
      sigmoid = value_of(swiglu::sigmoid(h1), tokens, columns);
      grad_out_transposed = value_of(transpose(grad_out), hidden, tokens);
      g_h = value_of(product(grad_out, transpose(w.down)), tokens, columns);
      g_h1_transposed = transposed(g_h1), g_h3_transposed = transposed(g_h3);
      g_x_h1 = value_of(product(g_h1, transpose(w.gate)), tokens, hidden);
      g_x_h3 = value_of(product(g_h3, transpose(w.up)), tokens, hidden);
    }

    me.forward = {{"%dot.12", "h1", true, compare(h1, "h1")},
                  {"%dot.13", "h3", true, compare(h3, "h3")},
                  {"%add_divide_fusion", "sigmoid", per_operation, compare(sigmoid, "sigmoid")},
                  {"%multiply_bitcast_fusion.1", "h", true, compare(h, "h")},
                  {"%dot.15", "out (unreduced)", true, difference(out.span(), "out")}};

    const auto grad_out_as_given = transposed(grad_out_transposed);
    std::vector<double> exact(grad_out.size());
    for (std::size_t i = 0; i < exact.size(); ++i) exact[i] = static_cast<double>(grad_out.data()[i]);
    const auto larger = [](double a, double b) { return std::isnan(a) || a > b ? a : b; };  // NaN is the largest
    const double weights_reduced =
        larger(difference(g.gate.span(), "grad_w1"),
               larger(difference(g.up.span(), "grad_w3"), difference(g.down.span(), "grad_w2")));
    double x_reduced = 0, from_h1 = 0, from_h3 = 0;
    if constexpr (per_operation) {
      const auto sum_over_group = [&](const std::string& name) {
        std::vector<double> sum = gold.rank(batch_rank * tensor_ranks, name);
        const std::vector<double> other = gold.rank(batch_rank * tensor_ranks + 1, name);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
        return sum;
      };
      from_h1 = difference(travelled(me.tensor_calls, "g_x_h1", false), "g_x_h1");
      from_h3 = difference(travelled(me.tensor_calls, "g_x_h3", false), "g_x_h3");
      x_reduced = larger(relative_difference(travelled(me.tensor_calls, "g_x_h1", true), sum_over_group("g_x_h1")),
                         relative_difference(travelled(me.tensor_calls, "g_x_h3", true), sum_over_group("g_x_h3")));
    } else {
      from_h1 = compare(g_x_h1, "g_x_h1"), from_h3 = compare(g_x_h3, "g_x_h3");
      x_reduced = difference(travelled(me.tensor_calls, "grad_x", true), "grad_x");
    }
    me.backward = {
        {"%copy_bitcast_fusion", "grad_out^T", per_operation, relative_difference(grad_out_as_given.span(), exact)},
        {"%dot.16", "g_h", per_operation, compare(g_h, "g_h")},
        {"%add_bitcast_fusion", "g_h1", true, compare(g_h1, "g_h1")},
        {"%copy_bitcast_fusion.1", "g_h3^T", per_operation, compare(transposed(g_h3_transposed), "g_h3")},
        {"%copy_bitcast_fusion.2", "g_h1^T", per_operation, compare(transposed(g_h1_transposed), "g_h1")},
        {"%multiply_bitcast_fusion", "g_h3", true, compare(g_h3, "g_h3")},
        {"%dot.20", "g_x_h1", per_operation, from_h1},
        {"%dot.18", "g_x_h3", per_operation, from_h3},
        {"%dot.27", "g_w1 (before)", true, difference(travelled(me.data_calls, "gate", false), "g_w1")},
        {"%dot.28", "g_w3 (before)", true, difference(travelled(me.data_calls, "up", false), "g_w3")},
        {"%dot.29", "g_w2 (before)", true, difference(travelled(me.data_calls, "down", false), "g_w2")},
        {"%all-reduce.1", "g_w1, g_w3, g_w2", true, weights_reduced},
        {"%all-reduce", per_operation ? "g_x_h3, g_x_h1" : "grad_x", true, x_reduced},
        {"%wrapped_add", "grad_x", true, difference(grad_x.span(), "grad_x")}};
  });
  return devices;
}

}  // namespace seed

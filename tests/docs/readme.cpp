// SPDX-License-Identifier: MIT

// The snippets of README.md, compiled and run. Exits 1 if what they compute disagrees.

// [smallest]
#include <swiglu/mlp.hpp>

using layer = swiglu::mlp<float, swiglu::dims{.hidden = 64, .intermediate = 192}>;

/// One step of training on a batch of any number of tokens; returns the gradient of x.
auto train_step(swiglu::view<const float, swiglu::dynamic, 64> x, layer::weights& w, layer::gradients& g) {
  const std::size_t tokens = x.rows();
  layer::saved s{tokens};       // what backward needs of forward: one per layer and micro-batch
  layer::workspace ws{tokens};  // scratch: one serves every layer of a model, in turn
  swiglu::tensor<float, swiglu::dynamic, 64> out{tokens}, grad_x{tokens};

  layer::forward(x, w, s, ws, out);
  layer::backward(out, x, w, s, ws, grad_x, g);  // the loss is |out|^2 / 2, so that grad_out is out
  return grad_x;
}
// [/smallest]

#include <cmath>
#include <cstdio>
#include <utility>

#include <swiglu/comm/launch.hpp>

using namespace swiglu;

template <class Tensor>
void fill(Tensor& t, float scale) {
  unsigned seed = 1;
  for (float& v : t.span())
    v = scale * (static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1);
}

/// Largest absolute difference of two tensors of one size.
template <class First, class Second>
double difference(const First& a, const Second& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::fmax(worst, std::fabs(static_cast<double>(a.data()[i] - b.data()[i])));
  return worst;
}

bool kernel_of_ones_own() {
  tensor<float, dynamic, 64> x{10};
  tensor<float, 64, 192> w_gate, w_up;
  tensor<float, dynamic, 192> h1{10}, h3{10}, h{10}, separate{10};
  fill(x, 1), fill(w_gate, 0.1f), fill(w_up, 0.2f);
  // [kernel]
  auto gate = product<"h1">(x, w_gate);  // lazy: nothing is computed yet
  auto up = product<"h3">(x, w_up);
  evaluate(h1 <<= gate, h3 <<= up, h <<= silu(gate) * up);  // ONE kernel: x is read once, both products accumulate
                                                            // side by side, silu runs on registers, three stores
  // [/kernel]
  evaluate(separate <<= silu(h1) * h3);
  return difference(h, separate) == 0;
}

bool on_a_mesh() {
  using whole = mlp<float, dims{.hidden = 64, .intermediate = 192}>;
  constexpr std::size_t data_ranks = 2, tensor_ranks = 2;
  tensor<float, 4, 8, 64> x;  // [sequence, batch, hidden]
  whole::weights w;
  fill(x, 1), fill(w.gate, 0.1f), fill(w.up, 0.2f), fill(w.down, 0.3f);
  tensor<float, 4, 8, 64> out;
  // [mesh]
  using shard = mlp<float, dims{.hidden = 64, .intermediate = 192, .tensor_parallel = 2}>;

  run_ranks(data_ranks, tensor_ranks, [&](auto& axes) {  // 2 x 2 threads; or: swiglu::mesh axes{data, tensor}
    const auto d = static_cast<std::size_t>(axes.data.rank()), t = static_cast<std::size_t>(axes.tensor.rank());
    tensor<float, dynamic, 64> my_x{16}, my_out{16};
    shard::weights my_w;
    shard_batch(std::as_const(x).view(), d, data_ranks, my_x.view());
    shard_weights(w, t, my_w);

    shard::saved s{16};
    shard::workspace ws{16};
    shard::forward(my_x, my_w, s, ws, my_out, axes);  // the same call, given the axes: out is summed over `tensor`
    if (t == 0) unshard_batch(std::as_const(my_out).view(), d, data_ranks, out.view());
  });
  // [/mesh]
  tensor<float, 4, 8, 64> alone;
  whole::saved s{32};
  whole::workspace ws{32};
  whole::forward(x, w, s, ws, alone);
  return difference(out, alone) < 1e-4;
}

bool smallest() {
  tensor<float, 5, 64> x;
  layer::weights w;
  layer::gradients g;
  fill(x, 1), fill(w.gate, 0.1f), fill(w.up, 0.2f), fill(w.down, 0.3f);
  const auto grad_x = train_step(x, w, g);
  return grad_x.rows() == 5 && g.gate(0, 0) != 0 && std::isfinite(g.down(191, 63));
}

int main() {
  const bool good[] = {smallest(), kernel_of_ones_own(), on_a_mesh()};
  for (const bool g : good)
    if (!g) return std::puts("a snippet of README.md computes something else than it says"), 1;
  return 0;
}

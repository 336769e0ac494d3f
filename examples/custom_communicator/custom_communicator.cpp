// SPDX-License-Identifier: MIT

// A transport of one's own between processes: it passes the library's conformance suite, and a layer trains over it on
// a 2 x 2 mesh. In star.hpp, forty lines. Exit status 1 if a law is broken or nothing is learned.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <utility>

#include <swiglu/comm/check.hpp>
#include <swiglu/mlp.hpp>

#include "processes.hpp"
#include "star.hpp"

namespace {

static_assert(swiglu::communicator<example::star, float>);

using axes_of = swiglu::mesh<example::star, example::star>;
constexpr std::size_t hidden = 16, intermediate = 64, tokens = 64, data_ranks = 2, tensor_ranks = 2;
using whole = swiglu::mlp<float, swiglu::dims{.hidden = hidden, .intermediate = intermediate}>;
using layer =
    swiglu::mlp<float, swiglu::dims{.hidden = hidden, .intermediate = intermediate, .tensor_parallel = tensor_ranks}>;

void fill(std::span<float> values, float scale, std::uint32_t seed) {
  for (float& v : values) {
    seed = seed * 1664525u + 1013904223u;
    v = scale * (static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
  }
}

void fill(whole::weights& w, std::uint32_t seed) {
  fill(w.gate.span(), 0.4f, seed), fill(w.up.span(), 0.4f, seed + 1), fill(w.down.span(), 0.2f, seed + 2);
}

bool keeps_the_laws(axes_of axes) {
  // [check]
  const swiglu::conformance_report report = swiglu::check_communicator(axes.data);
  if (!report.conforms()) std::fprintf(stderr, "%s", report.text().c_str());
  // [/check]
  const swiglu::conformance_report other = swiglu::check_communicator(axes.tensor);
  return report.conforms() && other.conforms();
}

/// Learns what another layer computes: the loss is the mean over the batch of |out - target|^2 / 2.
bool learns(axes_of axes) {
  const auto d = static_cast<std::size_t>(axes.data.rank()), t = static_cast<std::size_t>(axes.tensor.rank());
  constexpr std::size_t mine = tokens / data_ranks;
  swiglu::tensor<float, tokens, 1, hidden> batch;  // every rank makes the whole batch, and takes its part
  whole::weights teacher, student;
  fill(batch.span(), 1, 1), fill(teacher, 2), fill(student, 5);
  swiglu::tensor<float, swiglu::dynamic, hidden> x{mine}, target{mine}, out{mine}, grad_out{mine}, grad_x{mine};
  std::copy_n(batch.data() + d * x.size(), x.size(), x.data());
  layer::weights w, right;
  layer::gradients g;
  swiglu::shard_weights(teacher, t, right);
  swiglu::shard_weights(student, t, w);

  // [train]
  layer::saved s{mine};
  layer::workspace ws{mine};
  layer::forward(x, right, s, ws, target, axes);
  float first = 0, loss = 0;
  for (int step = 0; step <= 300; ++step) {
    layer::forward(x, w, s, ws, out, axes);
    loss = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      grad_out.data()[i] = (out.data()[i] - target.data()[i]) / static_cast<float>(tokens);
      loss += grad_out.data()[i] * (out.data()[i] - target.data()[i]) / 2;
    }
    axes.data.all_reduce(std::span<float>(&loss, 1));
    layer::backward(grad_out, x, w, s, ws, grad_x, g, axes);
    for (auto [weights, gradients] : {std::pair(w.gate.span(), g.gate.span()), std::pair(w.up.span(), g.up.span()),
                                      std::pair(w.down.span(), g.down.span())})
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.5f * gradients[i];
    if (step == 0) first = loss;
    if (axes.rank() == 0 && step % 100 == 0) std::printf("step %3d  loss %.6f\n", step, static_cast<double>(loss));
  }
  // [/train]
  return loss < first / 4;
}

}  // namespace

int main() {
  const bool lawful = example::run_processes(data_ranks, tensor_ranks, keeps_the_laws);
  std::printf("a star of sockets between four processes %s\n", lawful ? "keeps the laws" : "BREAKS A LAW");
  const bool learned = example::run_processes(data_ranks, tensor_ranks, learns);
  if (!learned) std::printf("NOTHING WAS LEARNED\n");
  return lawful && learned ? 0 : 1;
}

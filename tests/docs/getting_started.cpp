// SPDX-License-Identifier: MIT

// The program of docs/getting-started.md. Exits 1 if it learns nothing.

// [program]
#include <swiglu/mlp.hpp>

#include <cstdio>
#include <random>

using layer = swiglu::mlp<float, swiglu::dims{.hidden = 64, .intermediate = 192}>;

int main() {
  constexpr std::size_t tokens = 100;
  swiglu::tensor<float, swiglu::dynamic, 64> x{tokens}, target{tokens}, out{tokens}, grad_out{tokens}, grad_x{tokens};
  layer::weights w, teacher;    // w.gate, w.up [64, 192], w.down [192, 64]; zero at first
  layer::gradients g;           // the same shapes
  layer::saved s{tokens};       // what backward needs of forward
  layer::workspace ws{tokens};  // scratch: after this line a step allocates nothing

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& v : x.span()) v = normal(random);
  for (layer::weights* some : {&w, &teacher})
    for (auto span : {some->gate.span(), some->up.span(), some->down.span()})
      for (float& v : span) v = 0.1f * normal(random);
  layer::forward(x, teacher, s, ws, target);  // what the layer shall learn

  float first = 0, loss = 0;
  for (int step = 0; step <= 200; ++step) {
    layer::forward(x, w, s, ws, out);

    // The loss is |out - target|^2 / 2: its gradient is the difference.
    evaluate(grad_out <<= out - target);
    loss = 0;
    for (float d : grad_out.span()) loss += d * d / 2;
    if (step == 0) first = loss;
    if (step % 50 == 0) std::printf("step %3d  loss %8.4f\n", step, static_cast<double>(loss));

    layer::backward(grad_out, x, w, s, ws, grad_x, g);
    evaluate(w.gate <<= w.gate - 0.005f * g.gate);
    evaluate(w.up <<= w.up - 0.005f * g.up);
    evaluate(w.down <<= w.down - 0.005f * g.down);
  }
  return loss < first / 10 ? 0 : 1;
}
// [/program]

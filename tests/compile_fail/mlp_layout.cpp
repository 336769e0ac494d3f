// SPDX-License-Identifier: MIT
// A layer whose layout packs gate and up, given weights that have them apart.
// expect: swiglu: mlp: the layout of the layer .second argument. packs gate and up in one matrix
#include <swiglu/mlp.hpp>

#ifdef SWIGLU_BAD
constexpr swiglu::weight_layout layout = swiglu::out_in.gate_up();
#else
constexpr swiglu::weight_layout layout = swiglu::out_in;
#endif
using layer = swiglu::mlp<float, swiglu::dims{.hidden = 64, .intermediate = 96, .layout = layout}>;
using weights = swiglu::weights<float, 64, 96, swiglu::out_in>;

void forward(const swiglu::tensor<float, 5, 64>& x, const weights& w, layer::saved& s, layer::workspace& ws,
             swiglu::tensor<float, 5, 64>& out) {
  layer::forward(x, w, s, ws, out);
}

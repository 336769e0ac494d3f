// SPDX-License-Identifier: MIT
// Weights with up first, for a layer that takes gate first.
// expect: swiglu: weight_layout: weights or gradients .first argument. are in another layout
#include <swiglu/mlp.hpp>

using layer = swiglu::mlp<float, swiglu::dims{.hidden = 64, .intermediate = 96, .layout = swiglu::out_in.gate_up()}>;
#ifdef SWIGLU_BAD
using weights = swiglu::weights<float, 64, 96, swiglu::out_in.up_gate()>;
#else
using weights = swiglu::weights<float, 64, 96, swiglu::out_in.gate_up()>;
#endif

void forward(const swiglu::tensor<float, 5, 64>& x, const weights& w, layer::saved& s, layer::workspace& ws,
             swiglu::tensor<float, 5, 64>& out) {
  layer::forward(x, w, s, ws, out);
}

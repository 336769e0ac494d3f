// SPDX-License-Identifier: MIT
// A gate with a column too few.
// expect: swiglu: mlp: the shape of a weight or gradient .first two numbers. differs from the layer's
// expect: shape_and_layer<64, 95, 64, 96>
#include <swiglu/mlp.hpp>

using layer = swiglu::mlp<float, swiglu::dims{.hidden = 64, .intermediate = 96}>;
struct weights {
#ifdef SWIGLU_BAD
  swiglu::tensor<float, 64, 95> gate;
#else
  swiglu::tensor<float, 64, 96> gate;
#endif
  swiglu::tensor<float, 64, 96> up;
  swiglu::tensor<float, 96, 64> down;
};

void forward(const swiglu::tensor<float, 5, 64>& x, const weights& w, layer::saved& s, layer::workspace& ws,
             swiglu::tensor<float, 5, 64>& out) {
  layer::forward(x, w, s, ws, out);
}

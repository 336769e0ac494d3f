// SPDX-License-Identifier: MIT
// down where its transpose is wanted.
// expect: swiglu: mlp: the shape of a weight or gradient .first two numbers. differs from the layer's
// expect: down is .intermediate, hidden.
// expect: shape_and_layer<64, 96, 96, 64>
#include <swiglu/mlp.hpp>

using layer = swiglu::mlp<float, swiglu::dims{.hidden = 64, .intermediate = 96}>;
struct weights {
  swiglu::view<const float, 64, 96> gate, up;
#ifdef SWIGLU_BAD
  swiglu::view<const float, 64, 96> down;
#else
  swiglu::view<const float, 96, 64> down;
#endif
};

void backward(const swiglu::tensor<float, 5, 64>& x, const weights& w, const layer::saved& s, layer::workspace& ws,
              swiglu::tensor<float, 5, 64>& grad, layer::gradients& grad_w) {
  layer::backward(grad, x, w, s, ws, grad, grad_w);
}

// SPDX-License-Identifier: MIT
// The gradients of a whole layer where this rank holds half of the columns.
// expect: swiglu: mlp: the shape of a weight or gradient .first two numbers. differs from the layer's
// expect: shape_and_layer<64, 96, 64, 48>
#include <swiglu/mlp.hpp>

using layer = swiglu::mlp<float, swiglu::dims{.hidden = 64, .intermediate = 96, .tensor_parallel = 2}>;
#ifdef SWIGLU_BAD
using gradients = swiglu::weights<float, 64, 96>;
#else
using gradients = swiglu::weights<float, 64, 48>;
#endif

void backward(const swiglu::tensor<float, 5, 64>& x, const layer::weights& w, const layer::saved& s,
              layer::workspace& ws, swiglu::tensor<float, 5, 64>& grad, gradients& grad_w) {
  layer::backward(grad, x, w, s, ws, grad, grad_w);
}

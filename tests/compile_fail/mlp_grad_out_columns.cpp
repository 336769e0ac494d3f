// SPDX-License-Identifier: MIT
// expect: swiglu: mlp: the columns of x, out, grad_out or grad_x .first number. differ from the layer's hidden extent
// expect: columns_and_hidden<65, 64>
#include <swiglu/mlp.hpp>

using layer = swiglu::mlp<float, swiglu::dims{.hidden = 64, .intermediate = 96}>;
#ifdef SWIGLU_BAD
using grad_out_type = swiglu::tensor<float, swiglu::dynamic, 65>;
#else
using grad_out_type = swiglu::tensor<float, swiglu::dynamic, 64>;
#endif

void backward(const swiglu::tensor<float, 5, 64>& x, const layer::weights& w, const layer::saved& s,
              layer::workspace& ws, const grad_out_type& grad_out, swiglu::tensor<float, 5, 64>& grad_x,
              layer::gradients& grad_w) {
  layer::backward(grad_out, x, w, s, ws, grad_x, grad_w);
}

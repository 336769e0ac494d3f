// SPDX-License-Identifier: MIT
// expect: swiglu: forward_and_backward returns whole tensors: call forward and backward to scatter them
#include <swiglu/mlp.hpp>

using layer = swiglu::mlp<float, swiglu::dims{.hidden = 64, .intermediate = 96}>;

auto both(const swiglu::tensor<float, 5, 64>& x, const layer::weights& w) {
#ifdef SWIGLU_BAD
  return layer::forward_and_backward<swiglu::reduction::reduce_scatter>(x, w, x);
#else
  return layer::forward_and_backward<swiglu::reduction::unreduced>(x, w, x);
#endif
}

// SPDX-License-Identifier: MIT
// An axis whose class has no all_reduce.
// expect: communicator
// expect: c\.all_reduce\(buffer\)
#include <swiglu/mlp.hpp>

using layer = swiglu::mlp<float, swiglu::dims{.hidden = 64, .intermediate = 96}>;
struct axis {
  int rank() const { return 0; }
  int size() const { return 1; }
#ifndef SWIGLU_BAD
  void all_reduce(std::span<float>) {}
#endif
};

void forward(const swiglu::tensor<float, 5, 64>& x, const layer::weights& w, layer::saved& s, layer::workspace& ws,
             swiglu::tensor<float, 5, 64>& out, axis& data, axis& tensor) {
  layer::forward(x, w, s, ws, out, swiglu::mesh{data, tensor});
}

// SPDX-License-Identifier: MIT

// Every micro-kernel that ships, and a small layer whose kernels are compiled for its shape. Not linked into anything:
// checks/codegen.cmake reads the machine code.

#include <swiglu/mlp.hpp>

namespace codegen {

template <swiglu::real T>
struct selectors {
  static constexpr swiglu::kernel_selector<T> all[] = {swiglu::select_kernel<T, 1>, swiglu::select_kernel<T, 2>,
                                                       swiglu::select_kernel<T, 3>, swiglu::select_kernel<T, 4>};
};
const swiglu::kernel_selector<float>* float_kernels() { return selectors<float>::all; }
const swiglu::kernel_selector<double>* double_kernels() { return selectors<double>::all; }

using small = swiglu::mlp<float, swiglu::dims{.hidden = 16, .intermediate = 16, .tokens = 16}>;
using large = swiglu::mlp<float, swiglu::dims{.hidden = 1024, .intermediate = 2816}>;

template <class Layer, class Matrix>
void step(Matrix x, Matrix grad_out, typename Layer::weights& w, typename Layer::saved& s,
          typename Layer::workspace& ws, Matrix out, Matrix grad_x, typename Layer::gradients& g) {
  Layer::forward(x, w, s, ws, out);
  Layer::backward(grad_out, x, w, s, ws, grad_x, g);
}
template void step<small, swiglu::view<float, 16, 16>>(swiglu::view<float, 16, 16>, swiglu::view<float, 16, 16>,
                                                       small::weights&, small::saved&, small::workspace&,
                                                       swiglu::view<float, 16, 16>, swiglu::view<float, 16, 16>,
                                                       small::gradients&);
using tokens = swiglu::view<float, swiglu::dynamic, 1024>;
template void step<large, tokens>(tokens, tokens, large::weights&, large::saved&, large::workspace&, tokens, tokens,
                                  large::gradients&);

}  // namespace codegen

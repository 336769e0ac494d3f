// SPDX-License-Identifier: MIT
// expect: the operands of product differ in their element type
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;
#ifdef SWIGLU_BAD
using element = double;
#else
using element = float;
#endif

void f(tensor<float, 4, 4>& to, const tensor<float, 4, 4>& a, const tensor<element, 4, 4>& b) {
  evaluate(to <<= product(a, b));
}

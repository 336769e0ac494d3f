// SPDX-License-Identifier: MIT
// expect: the operands of an elementwise operation differ in their element type
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;
#ifdef SWIGLU_BAD
using element = double;
#else
using element = float;
#endif

void f(tensor<float, 3, 5>& to, const tensor<float, 3, 5>& a, const tensor<element, 3, 5>& b) {
  evaluate(to <<= a + b * 2.0);  // a number takes the type of the matrix beside it
}

// SPDX-License-Identifier: MIT
// A product of a formula, which would be computed again for every element of the result.
// expect: the operands of product are matrices or their transposes; evaluate other expressions first
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;

void f(tensor<float, 4, 4>& to, const tensor<float, 4, 4>& a, const tensor<float, 4, 4>& b) {
#ifdef SWIGLU_BAD
  evaluate(to <<= product(silu(a), b));
#else
  evaluate(to <<= silu(product(transpose(a), b)));
#endif
}

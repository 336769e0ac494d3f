// SPDX-License-Identifier: MIT
// An interleaved matrix on the left of a product.
// expect: swiglu: product.a, b.: an interleaved matrix can only be the right operand, b
#include <swiglu/expr/evaluate.hpp>

using matrix = swiglu::tensor<float, swiglu::dynamic, swiglu::dynamic>;
using interleaved = swiglu::interleaved_view<const float, swiglu::dynamic, swiglu::dynamic, swiglu::along::rows>;

void multiply(const interleaved& a, const matrix& b, matrix& to) {
#ifdef SWIGLU_BAD
  evaluate(to <<= product(a, b));
#else
  evaluate(to <<= product(b, a));
#endif
}

// SPDX-License-Identifier: MIT
// A tensor that dies before the expression that reads it is evaluated.
// expect: a temporary tensor would be destroyed before the expression that reads it is evaluated
#include <swiglu/expr/evaluate.hpp>

swiglu::tensor<float, 2, 3> make();

void f(swiglu::tensor<float, 2, 3>& to, const swiglu::tensor<float, 2, 3>& a) {
  using namespace swiglu;
#ifdef SWIGLU_BAD
  evaluate(to <<= a + make());
#else
  const tensor<float, 2, 3> named = make();
  evaluate(to <<= a + named, noalias(to) <<= 2 * a.view());  // a view may be a temporary
#endif
}

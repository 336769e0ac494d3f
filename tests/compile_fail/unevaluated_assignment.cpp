// SPDX-License-Identifier: MIT
// bad flags: -Werror=unused-result
// expect: an assignment does nothing until it is evaluated
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;

void f(tensor<float, 3, 5>& to, const tensor<float, 3, 5>& a) {
#ifdef SWIGLU_BAD
  to <<= a;
#else
  evaluate(to <<= a);
#endif
}

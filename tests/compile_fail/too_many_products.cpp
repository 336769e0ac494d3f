// SPDX-License-Identifier: MIT
// expect: too many different products in one evaluate .at most 8.
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;

void f(tensor<float, 4, 4>& to, const tensor<float, 4, 4>& a, const tensor<float, 4, 4>& b) {
  const auto four = product(a, b) * product(a, b) * product(a, b) * product(a, b);
#ifdef SWIGLU_BAD
  evaluate(to <<= four * four * product(a, b));
#else
  evaluate(to <<= four * four);
#endif
}

// SPDX-License-Identifier: MIT
// One name for products of operands that cannot be the same.
// expect: two products of one kernel have the same name but not the same operands
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;

void f(tensor<float, 4, 4>& to, tensor<float, 4, 4>& other, const tensor<float, 4, 8>& a,
       const tensor<float, 8, 4>& b) {
#ifdef SWIGLU_BAD
  evaluate(to <<= product<"p">(a, b), other <<= product<"p">(transpose(b), transpose(a)));
#else
  evaluate(to <<= product<"p">(a, b), other <<= product<"q">(transpose(b), transpose(a)) + product<"p">(a, b));
#endif
}

// SPDX-License-Identifier: MIT
// expect: destination and expression differ in their element type
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;
#ifdef SWIGLU_BAD
using element = double;
#else
using element = float;
#endif

void f(tensor<element, 3, 5>& to, const tensor<float, 3, 5>& a) { evaluate(to <<= a); }

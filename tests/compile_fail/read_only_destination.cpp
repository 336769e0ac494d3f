// SPDX-License-Identifier: MIT
// expect: the destination of <<= is read-only
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;
#ifdef SWIGLU_BAD
using destination = const tensor<float, 3, 5>;
#else
using destination = tensor<float, 3, 5>;
#endif

void f(destination& to, const tensor<float, 3, 5>& a) { evaluate(to <<= a); }

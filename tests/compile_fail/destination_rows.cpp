// SPDX-License-Identifier: MIT
// expect: the rows of the destination .first number. differ from those of the expression .second number.
// expect: destination_rows<4(ul)?, 3(ul)?>
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;
#ifdef SWIGLU_BAD
constexpr std::size_t rows = 4;
#else
constexpr std::size_t rows = 3;
#endif

void f(tensor<float, rows, 5>& to, const tensor<float, 3, 5>& a) { evaluate(to <<= silu(a)); }

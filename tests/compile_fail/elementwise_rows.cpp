// SPDX-License-Identifier: MIT
// expect: the operands of an elementwise operation differ in their rows
// expect: elementwise_rows<3(ul)?, 4(ul)?>
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;
#ifdef SWIGLU_BAD
constexpr std::size_t rows = 4;
#else
constexpr std::size_t rows = 3;
#endif

void f(tensor<float, dynamic, dynamic>& to, const tensor<float, 3, 5>& a, const tensor<float, rows, 5>& b) {
  evaluate(to <<= a + b);
}

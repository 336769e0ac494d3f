// SPDX-License-Identifier: MIT
// expect: the operands of an elementwise operation differ in their columns
// expect: elementwise_columns<5(ul)?, 6(ul)?>
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;
#ifdef SWIGLU_BAD
constexpr std::size_t cols = 6;
#else
constexpr std::size_t cols = 5;
#endif

void f(tensor<float, dynamic, dynamic>& to, const tensor<float, 3, 5>& a, const tensor<float, cols>& row) {
  evaluate(to <<= silu(a) * broadcast_row(row));
}

// SPDX-License-Identifier: MIT
// expect: the columns of the destination .first number. differ from those of the expression .second number.
// expect: destination_columns<64(ul)?, 48(ul)?>
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;
#ifdef SWIGLU_BAD
constexpr std::size_t cols = 64;
#else
constexpr std::size_t cols = 48;
#endif

void f(tensor<float, 3, cols>& to, const tensor<float, 3, 5>& a, const tensor<float, 5, 48>& b) {
  evaluate(accumulate(to) <<= product(a, b));
}

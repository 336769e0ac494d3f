// SPDX-License-Identifier: MIT
// A product whose depths differ: the message has both numbers.
// expect: the columns of a .first number. differ from the rows of b .second number.
// expect: product_depth<64(ul)?, 48(ul)?>
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;
#ifdef SWIGLU_BAD
constexpr std::size_t depth = 48;
#else
constexpr std::size_t depth = 64;
#endif

void f(tensor<float, 16, 32>& to, const tensor<float, 16, 64>& a, const tensor<float, depth, 32>& b) {
  evaluate(to <<= product(a, b));
}

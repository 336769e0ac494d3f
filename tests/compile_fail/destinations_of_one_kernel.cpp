// SPDX-License-Identifier: MIT
// expect: the destinations of one evaluate differ in their columns
// expect: kernel_columns<5(ul)?, 6(ul)?>
#include <swiglu/expr/evaluate.hpp>

using namespace swiglu;
#ifdef SWIGLU_BAD
constexpr std::size_t cols = 6;
#else
constexpr std::size_t cols = 5;
#endif

void f(tensor<float, 3, 5>& to, tensor<float, 3, cols>& other) { evaluate(to <<= 1, other <<= 2); }

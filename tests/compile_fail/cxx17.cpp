// SPDX-License-Identifier: MIT
// Before C++20, which g++ 12 and clang 14 do not choose by themselves: the first message says what is missing.
// bad flags: -std=c++17 -fmax-errors=1
// expect: error: .*swiglu: C[+][+]20 is needed; build with -std=c[+][+]20

#include <swiglu/mlp.hpp>

int main() {}

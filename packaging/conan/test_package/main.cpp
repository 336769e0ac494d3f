// SPDX-License-Identifier: MIT

#include <swiglu/activation.hpp>

int main() { return swiglu::silu(0.0f) == 0 ? 0 : 1; }

// SPDX-License-Identifier: MIT

#include <wrapper.hpp>

#include <cmath>

int main() { return std::fabs(twice_silu(1) - 1.4621172f) < 1e-6f ? 0 : 1; }

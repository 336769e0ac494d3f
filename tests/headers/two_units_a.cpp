// SPDX-License-Identifier: MIT

// Together with two_units_b.cpp: every header in two translation units of one program.

#include "all.inc"

int other_unit();

int main() { return other_unit(); }

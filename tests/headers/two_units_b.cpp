// SPDX-License-Identifier: MIT

#include "all.inc"

int other_unit();
int other_unit() { return 0; }

// SPDX-License-Identifier: MIT
// The compiler may not be told that there are no infinities.
// bad flags: -ffinite-math-only
// expect: swiglu: -ffinite-math-only .part of -ffast-math. lets the compiler drop NaN and infinity
#include <swiglu/config.hpp>

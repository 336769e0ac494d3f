// SPDX-License-Identifier: MIT
#pragma once

#include <swiglu/activation.hpp>

inline float twice_silu(float x) { return 2 * swiglu::silu(x); }

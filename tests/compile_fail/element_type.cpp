// SPDX-License-Identifier: MIT
// expect: elements are float or double
#include <swiglu/tensor.hpp>

#ifdef SWIGLU_BAD
using element = int;
#else
using element = float;
#endif

swiglu::view<element, 3, 5> f() { return {}; }

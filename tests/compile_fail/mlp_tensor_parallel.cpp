// SPDX-License-Identifier: MIT
// expect: swiglu: mlp: tensor_parallel has to divide the intermediate extent
#include <swiglu/mlp.hpp>

#ifdef SWIGLU_BAD
constexpr std::size_t intermediate = 97;
#else
constexpr std::size_t intermediate = 96;
#endif
using layer = swiglu::mlp<float, swiglu::dims{.hidden = 64, .intermediate = intermediate, .tensor_parallel = 2}>;
static_assert(layer::shape.local_intermediate() == 48);

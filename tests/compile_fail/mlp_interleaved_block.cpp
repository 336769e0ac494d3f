// SPDX-License-Identifier: MIT
// Blocks of 5 do not divide the 48 columns of gate that each of two ranks has.
// expect: swiglu: weight_layout: the block of interleaved gate and up has to divide the intermediate extent
#include <swiglu/mlp.hpp>

#ifdef SWIGLU_BAD
constexpr std::size_t block = 5;
#else
constexpr std::size_t block = 6;
#endif
using layer = swiglu::mlp<
    float,
    swiglu::dims{.hidden = 64, .intermediate = 96, .tensor_parallel = 2, .layout = swiglu::in_out.interleaved(block)}>;

layer::weights weights() { return {}; }

// SPDX-License-Identifier: MIT

#include "layer.hpp"

#include <swiglu/expr/evaluate.hpp>

#define SWIGLU_TEXT_OF(x) #x
#define SWIGLU_NAME_OF(x) SWIGLU_TEXT_OF(x)

result FUNCTION(swiglu::view<const float, 5, 24> x, swiglu::view<const float, 24, 40> w) {
  swiglu::tensor<float, 5, 40> out;  // storage is the same type for every instruction set
  swiglu::evaluate(out <<= swiglu::silu(swiglu::product(x, w)));
  return {std::move(out), SWIGLU_NAME_OF(SWIGLU_ABI)};
}

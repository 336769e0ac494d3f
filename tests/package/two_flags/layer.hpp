// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include <swiglu/tensor.hpp>

struct result {
  swiglu::tensor<float, 5, 40> out;
  std::string abi;
};
result layer_1(swiglu::view<const float, 5, 24> x, swiglu::view<const float, 24, 40> w);
result layer_2(swiglu::view<const float, 5, 24> x, swiglu::view<const float, 24, 40> w);

// SPDX-License-Identifier: MIT

#include <swiglu/comm/gloo.hpp>

#include <memory>

int main() {
  swiglu::gloo_communicator alone(std::make_shared<gloo::Context>(0, 1));
  float x = 1;
  alone.all_reduce(std::span<float>(&x, 1));
  return x == 1 ? 0 : 1;
}

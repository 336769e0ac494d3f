// SPDX-License-Identifier: MIT

#include <swiglu/activation.hpp>
#include <swiglu/version.hpp>

#include <iostream>
#include <string>

int main() {
  const std::string version = std::to_string(SWIGLU_VERSION_MAJOR) + "." + std::to_string(SWIGLU_VERSION_MINOR) + "." +
                              std::to_string(SWIGLU_VERSION_PATCH);
  std::cout << "swiglu " << version << ", silu(1) = " << swiglu::silu(1.0f) << "\n";
  return version == EXPECTED_VERSION ? 0 : 1;
}

// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>

namespace char_lm {

/// Something that whoever started the program can put right: a flag, a file. One line; the program exits with 2.
struct bad_input : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace char_lm

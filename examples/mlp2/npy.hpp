// SPDX-License-Identifier: MIT
#pragma once

// Reads NumPy's .npy files: float32 or float64, C order, as doubles.

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

/// The elements of an array in C order. Throws std::runtime_error naming the file and what is wrong with it.
inline std::vector<double> read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto fail = [&](const char* what) -> void { throw std::runtime_error(path + ": " + what); };
  if (bytes.size() < 10 || bytes.compare(0, 6, "\x93NUMPY") != 0 || bytes[6] != 1) fail("not a .npy file of version 1");
  const std::size_t length = static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  if (bytes.size() < 10 + length) fail("truncated");
  const std::string header = bytes.substr(10, length);
  if (header.find("'fortran_order': False") == std::string::npos) fail("not in C order");
  const bool single = header.find("'<f4'") != std::string::npos;
  if (!single && header.find("'<f8'") == std::string::npos) fail("elements are neither float32 nor float64");

  std::size_t count = 1;
  const std::size_t open = header.find('('), close = header.find(')');
  if (open == std::string::npos || close == std::string::npos) fail("no shape");
  for (std::size_t at = open + 1; at < close;) {
    std::size_t used = 0;
    const std::string rest = header.substr(at, close - at);
    if (rest.find_first_of("0123456789") == std::string::npos) break;
    count *= std::stoul(rest.substr(rest.find_first_of("0123456789")), &used);
    at += rest.find_first_of("0123456789") + used + 1;
  }
  const std::size_t size = single ? sizeof(float) : sizeof(double);
  if (bytes.size() - 10 - length != count * size) fail("size and shape differ");

  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const char* from = bytes.data() + 10 + length + i * size;
    if (single) {
      float x;
      std::memcpy(&x, from, sizeof x);
      values[i] = static_cast<double>(x);
    } else {
      std::memcpy(&values[i], from, sizeof(double));
    }
  }
  return values;
}

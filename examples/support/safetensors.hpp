// SPDX-License-Identifier: MIT
#pragma once

// The safetensors format, read and written: eight bytes with the length of a JSON header, the header, then the tensors
// back to back, little-endian and row-major.
//
//     {"__metadata__": {"key": "text", ...}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//
// A file is looked at before it is believed: nothing is allocated for a tensor until the header has been checked
// against the size of the file.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors {

static_assert(std::endian::native == std::endian::little, "safetensors: elements are read and written as they lie");

/// A file that is not what it says, or not what was asked for. One line.
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct tensor_info {
  std::string name;
  std::string dtype;                 ///< "F32", "BF16", ...
  std::vector<std::uint64_t> shape;  ///< the product is that of the bytes
  std::uint64_t begin = 0, end = 0;  ///< bytes, counted from the end of the header

  std::uint64_t elements() const;
  friend bool operator==(const tensor_info&, const tensor_info&) = default;
};

struct header {
  std::vector<tensor_info> tensors;  ///< in the order of their bytes, which they cover without a hole
  std::map<std::string, std::string> metadata;
  std::uint64_t data = 0;  ///< where in the file the first tensor begins

  /// Throws error if there is none of this name.
  const tensor_info& find(std::string_view name) const;
  friend bool operator==(const header&, const header&) = default;
};

/// The first bytes of a file, from which header_size tells how many more belong to the header.
inline constexpr std::size_t prefix_size = 8;

/// Bytes of the JSON text. `file_size`: of the whole file. Throws error if it cannot be a safetensors file.
std::uint64_t header_size(std::span<const std::byte, prefix_size> prefix, std::uint64_t file_size);

/// The header, checked: known element types, shapes that give the number of bytes, bytes that follow each other from
/// the first to the last of the file, no name twice. Throws error.
header parse_header(std::string_view json, std::uint64_t file_size);

/// `elements` numbers from the bytes of a tensor, BF16 widened to float. Throws error for any other type than F32 and
/// BF16, or if the sizes differ.
void convert(const tensor_info& tensor, std::span<const std::byte> bytes, std::span<float> elements);

/// A file that is open, its header checked.
class reader {
 public:
  /// Throws error, with the path in front of it.
  explicit reader(const std::string& path);

  const safetensors::header& header() const { return header_; }
  /// The elements of a tensor as floats, in row-major order. `to` has as many.
  void read(const tensor_info& tensor, std::span<float> to);
  /// The bytes from `begin` on, counted from the end of the header, as they lie in the file.
  void read_bytes(std::uint64_t begin, std::span<std::byte> to);

 private:
  std::string path_;
  std::ifstream file_;
  safetensors::header header_;
};

/// A tensor to be written.
struct entry {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::span<const float> elements;
  std::string dtype = "F32";  ///< or "BF16": rounded to the nearest, to even in the middle
};

/// What stands before the tensors in a file with these, in this order: the prefix and the JSON text, padded so that the
/// tensors begin at a multiple of 64 bytes. Elements are not looked at. Throws error if a name is given twice.
std::string header_text(std::span<const entry> tensors, const std::map<std::string, std::string>& metadata);

/// A whole file. Throws error if it cannot be written.
void write(const std::string& path, std::span<const entry> tensors,
           const std::map<std::string, std::string>& metadata = {});

}  // namespace safetensors

// SPDX-License-Identifier: MIT
#include "safetensors.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

namespace safetensors {

namespace {

using nlohmann::json;

constexpr std::uint64_t longest_header = 100'000'000;  // the format's own limit
constexpr const char* metadata_key = "__metadata__";

/// Bytes of an element, 0 for a type that is not known.
std::uint64_t bytes_of(std::string_view dtype) {
  static constexpr std::pair<std::string_view, std::uint64_t> sizes[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}};
  for (const auto& [name, size] : sizes)
    if (name == dtype) return size;
  return 0;
}

/// Text from a file within a message: quoted, short, on one line.
std::string in_quotes(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, 60)) shown += c < ' ' || c > '~' ? '?' : c;
  return shown + (text.size() > 60 ? "...\"" : "\"");
}

std::uint64_t multiplied(std::uint64_t a, std::uint64_t b, const std::string& name) {
  if (b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b)
    throw error("the shape of " + name + " has too many elements");
  return a * b;
}

std::uint64_t bytes_of(const std::string& name, std::string_view dtype, std::span<const std::uint64_t> shape) {
  std::uint64_t bytes = bytes_of(dtype);
  if (bytes == 0) throw error("the dtype of " + name + ", " + in_quotes(dtype) + ", is not known");
  for (const std::uint64_t extent : shape) bytes = multiplied(bytes, extent, name);
  return bytes;
}

std::uint64_t whole_number(const json& value, const std::string& what) {
  if (!value.is_number_unsigned()) throw error(what + " is not made of whole numbers");
  return value.get<std::uint64_t>();
}

/// The parser keeps the last of two members of one name: they are refused here instead. So is any nesting beyond what a
/// header has.
class strict_parser {
 public:
  bool operator()(int depth, json::parse_event_t event, json& value) {
    if (depth > 3) throw error("the header is nested too deeply");
    if (event == json::parse_event_t::object_start) {
      names_.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      names_.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      if (!names_.back().insert(name).second) throw error("the header has " + in_quotes(name) + " twice");
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> names_;
};

tensor_info tensor_of(const std::string& key, const json& value) {
  const std::string name = in_quotes(key);
  for (const char* member : {"dtype", "shape", "data_offsets"})
    if (!value.is_object() || !value.contains(member)) throw error("the tensor " + name + " has no " + member);
  const json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  if (!dtype.is_string()) throw error("the dtype of " + name + " is no text");
  if (!shape.is_array()) throw error("the shape of " + name + " is no list");
  if (!offsets.is_array() || offsets.size() != 2) throw error("the data_offsets of " + name + " are not two");

  tensor_info tensor{.name = key, .dtype = dtype.get<std::string>(), .shape = {}, .begin = 0, .end = 0};
  for (const json& extent : shape) tensor.shape.push_back(whole_number(extent, "the shape of " + name));
  tensor.begin = whole_number(offsets[0], "data_offsets of " + name);
  tensor.end = whole_number(offsets[1], "data_offsets of " + name);
  const std::uint64_t bytes = bytes_of(name, tensor.dtype, tensor.shape);
  if (tensor.begin > tensor.end || tensor.end - tensor.begin != bytes)
    throw error("the tensor " + name + " has shape and dtype for " + std::to_string(bytes) +
                " bytes, but data_offsets from " + std::to_string(tensor.begin) + " to " + std::to_string(tensor.end));
  return tensor;
}

[[noreturn]] void no_room(const tensor_info& tensor, std::uint64_t elements, std::uint64_t room) {
  throw error("the tensor " + in_quotes(tensor.name) + " has " + std::to_string(elements) +
              " elements, there is room for " + std::to_string(room));
}

[[noreturn]] void size_does_not_fit(std::uint64_t expected, std::uint64_t actual) {
  throw error("was cut off or damaged: its size does not fit: expected " + std::to_string(expected) + " bytes, got " +
              std::to_string(actual));
}

}  // namespace

std::uint64_t tensor_info::elements() const {
  std::uint64_t n = 1;
  for (const std::uint64_t extent : shape) n *= extent;  // checked with the header
  return n;
}

const tensor_info& header::find(std::string_view name) const {
  for (const tensor_info& tensor : tensors)
    if (tensor.name == name) return tensor;
  throw error("there is no tensor " + in_quotes(name));
}

std::uint64_t header_size(std::span<const std::byte, prefix_size> prefix, std::uint64_t file_size) {
  std::uint64_t length = 0;
  std::memcpy(&length, prefix.data(), sizeof length);
  if (length > longest_header || length < 2) throw error("is no safetensors file");
  if (file_size < prefix_size || length > file_size - prefix_size) size_does_not_fit(prefix_size + length, file_size);
  return length;
}

header parse_header(std::string_view text, std::uint64_t file_size) {
  if (!text.starts_with('{')) throw error("is no safetensors file");
  json all;
  try {
    all = json::parse(text, strict_parser());
  } catch (const json::exception&) {
    throw error("is no safetensors file: its header is no JSON");
  }
  if (!all.is_object()) throw error("is no safetensors file: its header is no object");

  header result;
  result.data = prefix_size + text.size();
  for (const auto& [key, value] : all.items()) {
    if (key != metadata_key) {
      result.tensors.push_back(tensor_of(key, value));
      continue;
    }
    if (!value.is_object()) throw error("__metadata__ is no object");
    for (const auto& [name, content] : value.items()) {
      if (!content.is_string()) throw error("__metadata__ has something else than text: " + in_quotes(name));
      result.metadata[name] = content.get<std::string>();
    }
  }

  const auto order = [](const tensor_info& t) { return std::tie(t.begin, t.end, t.name); };
  std::ranges::sort(result.tensors, {}, order);
  std::uint64_t at = 0;
  for (const tensor_info& tensor : result.tensors) {
    if (tensor.begin != at)
      throw error("the tensor " + in_quotes(tensor.name) + (tensor.begin < at ? " overlaps" : " leaves a hole after") +
                  " the one before it");
    at = tensor.end;
  }
  if (file_size < result.data || at != file_size - result.data) size_does_not_fit(result.data + at, file_size);
  return result;
}

void convert(const tensor_info& tensor, std::span<const std::byte> bytes, std::span<float> elements) {
  const std::size_t size = tensor.dtype == "F32" ? 4 : tensor.dtype == "BF16" ? 2 : 0;
  if (size == 0) throw error("the tensor " + in_quotes(tensor.name) + " is of " + tensor.dtype + ", not F32 or BF16");
  if (bytes.size() != elements.size() * size) no_room(tensor, bytes.size() / size, elements.size());
  if (size == 4) {
    if (!bytes.empty()) std::memcpy(elements.data(), bytes.data(), bytes.size());
    return;
  }
  for (std::size_t i = 0; i < elements.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + 2 * i, sizeof half);
    elements[i] = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
  }
}

reader::reader(const std::string& path) : path_(path), file_(path, std::ios::binary) {
  std::error_code failed;
  const std::uint64_t size = std::filesystem::file_size(path, failed);
  if (!file_ || failed) throw error(path + ": cannot be read: " + (failed ? failed.message() : std::strerror(errno)));
  try {
    if (size < prefix_size) throw error("is no safetensors file, or one that was cut off");
    std::array<std::byte, prefix_size> prefix{};
    std::string text;
    const auto read = [&](char* to, std::uint64_t bytes) {
      if (!file_.read(to, static_cast<std::streamsize>(bytes))) throw error("cannot be read");
    };
    read(reinterpret_cast<char*>(prefix.data()), prefix.size());
    text.resize(header_size(prefix, size));
    read(text.data(), text.size());
    header_ = parse_header(text, size);
  } catch (const error& wrong) {
    throw error(path + ": " + wrong.what());
  }
}

void reader::read_bytes(std::uint64_t begin, std::span<std::byte> to) {
  file_.seekg(static_cast<std::streamoff>(header_.data + begin));
  if (!file_.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size())))
    throw error("cannot be read");
}

void reader::read(const tensor_info& tensor, std::span<float> to) {
  try {
    if (tensor.elements() != to.size()) no_room(tensor, tensor.elements(), to.size());
    if (tensor.dtype == "F32") return read_bytes(tensor.begin, std::as_writable_bytes(to));
    std::vector<std::byte> bytes(tensor.end - tensor.begin);
    read_bytes(tensor.begin, bytes);
    convert(tensor, bytes, to);
  } catch (const error& wrong) {
    throw error(path_ + ": " + wrong.what());
  }
}

std::string header_text(std::span<const entry> tensors, const std::map<std::string, std::string>& metadata) {
  json all = json::object();
  if (!metadata.empty()) all[metadata_key] = metadata;
  std::uint64_t at = 0;
  for (const entry& t : tensors) {
    if (all.contains(t.name) || t.name == metadata_key) throw error("the name " + in_quotes(t.name) + " is taken");
    const std::uint64_t end = at + bytes_of(in_quotes(t.name), t.dtype, t.shape);
    all[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text;
  try {
    text = all.dump();
  } catch (const json::exception&) {
    throw error("a name or the metadata is no UTF-8");
  }
  text.append((64 - (prefix_size + text.size()) % 64) % 64, ' ');
  const std::uint64_t length = text.size();
  std::string prefix(prefix_size, '\0');
  std::memcpy(prefix.data(), &length, sizeof length);
  return prefix + text;
}

void write(const std::string& path, std::span<const entry> tensors,
           const std::map<std::string, std::string>& metadata) {
  std::ofstream file(path, std::ios::binary);
  file << header_text(tensors, metadata);
  for (const entry& t : tensors) {
    const std::uint64_t bytes = bytes_of(in_quotes(t.name), t.dtype, t.shape), size = bytes_of(t.dtype);
    if (t.elements.size() != bytes / size || (t.dtype != "F32" && t.dtype != "BF16"))
      throw error(path + ": the tensor " + in_quotes(t.name) + ": expected " + std::to_string(bytes / size) +
                  " elements of F32 or BF16, got " + std::to_string(t.elements.size()) + " of " + t.dtype);
    if (size == 4) {
      file.write(reinterpret_cast<const char*>(t.elements.data()), static_cast<std::streamsize>(bytes));
      continue;
    }
    std::vector<std::uint16_t> halves;
    halves.reserve(t.elements.size());
    for (const float value : t.elements) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
      // A NaN must not be rounded to infinity: it keeps its upper half, and stays quiet.
      halves.push_back(static_cast<std::uint16_t>(value != value ? bits >> 16 | 0x40 : rounded >> 16));
    }
    file.write(reinterpret_cast<const char*>(halves.data()), static_cast<std::streamsize>(bytes));
  }
  if (!file.flush()) throw error(path + ": cannot be written");
}

}  // namespace safetensors

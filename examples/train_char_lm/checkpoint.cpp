// SPDX-License-Identifier: MIT
#include "checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "bad_input.hpp"
#include "safetensors.hpp"

namespace char_lm {

namespace {

namespace fs = std::filesystem;

using hash = std::uint64_t;
constexpr hash hash_of_nothing = 0xcbf29ce484222325;

hash add_to(hash h, std::span<const std::byte> bytes) {
  for (const std::byte b : bytes) h = (h ^ static_cast<hash>(b)) * 0x100000001b3;
  return h;
}

fs::path folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

[[noreturn]] void fail(const std::string& path, const std::string& what, int error) {
  throw std::runtime_error(path + ": " + what + ": " + std::strerror(error));
}

// A file that is removed unless it was renamed.
class temporary_file {
 public:
  explicit temporary_file(const std::string& path) : path_(path + ".tmp"), file_(std::fopen(path_.c_str(), "wb")) {
    if (file_ == nullptr) fail(path_, "cannot be written", errno);
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() {
    if (file_ != nullptr) std::fclose(file_);
    if (!renamed_) std::remove(path_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail(path_, "cannot be written", errno);
  }
  /// Only what is on the disk may take the place of the old file, and only then is the new name put there too.
  void rename_to(const std::string& path) {
    if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail(path_, "cannot be written", errno);
    if (std::fclose(std::exchange(file_, nullptr)) != 0) fail(path_, "cannot be written", errno);
    if (std::rename(path_.c_str(), path.c_str()) != 0) fail(path, "cannot be replaced", errno);
    renamed_ = true;
    const int folder = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY);
    if (folder < 0) return;
    ::fsync(folder);  // not every file system can: then the rename is as durable as it makes it
    ::close(folder);
  }

 private:
  std::string path_;
  std::FILE* file_;
  bool renamed_ = false;
};

using text_map = std::map<std::string, std::string>;
constexpr const char *program = "train_char_lm", *format = "2";

/// The tensors of a file, in its order: three times the order of parameters::list().
std::vector<safetensors::entry> tensors_of(const model_shape& shape, std::uint64_t alphabet) {
  const std::uint64_t hidden = shape.hidden(), intermediate = shape.intermediate;
  std::vector<safetensors::entry> tensors;
  for (const std::string of : {"weights.", "first_moments.", "second_moments."}) {
    tensors.push_back({of + "embedding", {alphabet, shape.width}, {}});
    for (std::size_t i = 0; i < shape.blocks; ++i) {
      const std::string block = of + "blocks." + std::to_string(i) + ".";
      tensors.push_back({block + "norm", {hidden}, {}});
      tensors.push_back({block + "gate", {hidden, intermediate}, {}});
      tensors.push_back({block + "up", {hidden, intermediate}, {}});
      tensors.push_back({block + "down", {intermediate, hidden}, {}});
    }
    tensors.push_back({of + "norm", {hidden}, {}});
    tensors.push_back({of + "head", {hidden, alphabet}, {}});
  }
  return tensors;
}

/// Numbers as text that reads back as the same number.
template <class Number>
std::string text_of(Number value) {
  std::array<char, 40> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}
template <class Number>
Number number_of(const text_map& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) throw safetensors::error("is damaged: its metadata has no " + key);
  const std::string& text = found->second;
  Number value{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size())
    throw safetensors::error("is damaged: its metadata has no number " + key);
  return value;
}

text_map metadata_of(const checkpoint& c) {
  const recipe& r = c.made_with;
  return {{"program", program},
          {"format", format},
          {"context", text_of(c.shape.context)},
          {"width", text_of(c.shape.width)},
          {"intermediate", text_of(c.shape.intermediate)},
          {"blocks", text_of(c.shape.blocks)},
          {"alphabet", text_of(c.alphabet)},
          {"fingerprint", text_of(c.fingerprint)},
          {"step", text_of(c.step)},
          {"seed", text_of(r.seed)},
          {"steps", text_of(r.steps)},
          {"batch", text_of(r.batch)},
          {"rate", text_of(r.rate)},
          {"decay", text_of(r.decay)},
          {"clip", text_of(r.clip)}};
}

hash hash_of(const text_map& metadata) {
  hash h = hash_of_nothing;
  for (const auto& [key, value] : metadata)
    for (const std::string& text : {key, value}) h = add_to(h, std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  return h;
}

std::string described(const model_shape& s) {
  return std::to_string(s.blocks) + " blocks of (" + std::to_string(s.context) + " x " + std::to_string(s.width) +
         ") x " + std::to_string(s.intermediate);
}

/// Throws safetensors::error unless the file is one of this program.
void check_program(const safetensors::header& header) {
  const text_map& metadata = header.metadata;
  const auto is = [&](const char* key, const char* value) {
    const auto found = metadata.find(key);
    return found != metadata.end() && found->second == value;
  };
  if (!is("program", program)) throw safetensors::error("is no checkpoint of this program");
  if (!is("format", format))
    throw safetensors::error("is a checkpoint of another format, this program reads " + std::string(format));
}

checkpoint load(safetensors::reader& file, const model_shape& shape) {
  check_program(file.header());
  text_map metadata = file.header().metadata;
  const std::string written = metadata["checksum"];
  metadata.erase("checksum");
  const auto count = [&](const char* key) { return number_of<std::uint64_t>(metadata, key); };
  const model_shape found{count("context"), count("width"), count("intermediate"), count("blocks")};
  if (found != shape)
    throw safetensors::error("is of another model: " + described(found) + ", this program has " + described(shape));
  checkpoint c{.shape = shape,
               .alphabet = count("alphabet"),
               .fingerprint = count("fingerprint"),
               .step = count("step"),
               .made_with = {},
               .state = {}};
  c.made_with = {count("seed"), count("steps"), count("batch")};
  for (const auto& [value, key] : {std::pair(&c.made_with.rate, "rate"), std::pair(&c.made_with.decay, "decay"),
                                   std::pair(&c.made_with.clip, "clip")})
    *value = number_of<double>(metadata, key);

  const std::vector<safetensors::tensor_info>& tensors = file.header().tensors;
  if (c.alphabet > 256) throw safetensors::error("is damaged: its alphabet has more than 256 characters");
  const std::vector<safetensors::entry> expected = tensors_of(shape, c.alphabet);
  std::uint64_t values = 0;
  if (tensors.size() != expected.size()) throw safetensors::error("is damaged: it has not the tensors of this model");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name != expected[i].name || tensors[i].shape != expected[i].shape || tensors[i].dtype != "F32")
      throw safetensors::error("is damaged: it has not the tensor " + expected[i].name + " of this model");
    values += tensors[i].elements();
  }

  hash checksum = hash_of(metadata);
  std::array<std::byte, 1 << 14> part;
  const std::uint64_t size = values * sizeof(float);
  for (std::uint64_t at = 0; at < size; at += part.size()) {
    const auto bytes = std::span(part).first(std::min<std::uint64_t>(size - at, part.size()));
    file.read_bytes(at, bytes);
    checksum = add_to(checksum, bytes);
  }
  if (text_of(checksum) != written) throw safetensors::error("is damaged: its checksum does not fit");

  std::uint64_t at = 0;
  for (std::vector<float>& section : c.state) {
    section.resize(values / c.state.size());
    file.read_bytes(at, std::as_writable_bytes(std::span(section)));
    at += section.size() * sizeof(float);
  }
  return c;
}

}  // namespace

void save_checkpoint(const std::string& path, const checkpoint& c) {
  text_map metadata = metadata_of(c);
  hash checksum = hash_of(metadata);
  for (const std::vector<float>& section : c.state) checksum = add_to(checksum, std::as_bytes(std::span(section)));
  metadata["checksum"] = text_of(checksum);

  const std::vector<safetensors::entry> tensors = tensors_of(c.shape, c.alphabet);
  std::uint64_t values = 0;
  for (const safetensors::entry& t : tensors) {
    std::uint64_t n = 1;
    for (const std::uint64_t extent : t.shape) n *= extent;
    values += n;
  }
  for (const std::vector<float>& section : c.state)
    if (section.size() * c.state.size() != values) throw std::logic_error("a checkpoint of another shape than it says");

  temporary_file file(path);
  const std::string head = safetensors::header_text(tensors, metadata);
  file.write(std::as_bytes(std::span(head)));
  for (const std::vector<float>& section : c.state) file.write(std::as_bytes(std::span(section)));
  file.rename_to(path);
}

checkpoint load_checkpoint(const std::string& path, const model_shape& shape) {
  try {
    safetensors::reader file(path);
    try {
      return load(file, shape);
    } catch (const safetensors::error& wrong) {
      throw bad_input(path + ": " + wrong.what());
    }
  } catch (const safetensors::error& wrong) {
    throw bad_input(wrong.what());
  }
}

void check_writable(const std::string& path) {
  std::error_code failed;
  const fs::path folder = folder_of(path);
  if (!fs::is_directory(folder, failed)) throw bad_input(path + ": there is no folder " + folder.string());
  if (fs::exists(fs::path(path), failed)) {
    try {
      check_program(safetensors::reader(path).header());
    } catch (const safetensors::error&) {
      throw bad_input(path + ": is there already, and is no checkpoint: it will not be replaced");
    }
  }
  if (::access(folder.c_str(), W_OK) != 0)
    throw bad_input(path + ": the folder " + folder.string() + " cannot be written to");
}

}  // namespace char_lm

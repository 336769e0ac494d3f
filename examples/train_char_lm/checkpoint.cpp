// SPDX-License-Identifier: MIT
#include "checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <utility>

#include "bad_input.hpp"

namespace char_lm {

namespace {

namespace fs = std::filesystem;

struct header {
  std::array<char, 8> magic{'c', 'h', 'a', 'r', '_', 'l', 'm', '\n'};
  std::uint64_t format = 1, byte_order = 0x0102030405060708;
  std::uint64_t context = 0, width = 0, intermediate = 0, blocks = 0, alphabet = 0, fingerprint = 0;
  std::uint64_t step = 0, seed = 0, steps = 0, batch = 0;
  double rate = 0, decay = 0, clip = 0;
  std::uint64_t values = 0;
};
static_assert(sizeof(header) == 17 * 8, "written as it lies in memory: no padding");

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

std::uint64_t values_of(const model_shape& shape, std::uint64_t alphabet) {
  const std::uint64_t hidden = shape.hidden();
  return alphabet * (shape.width + hidden) + shape.blocks * (hidden + 3 * hidden * shape.intermediate) + hidden;
}

std::string described(const model_shape& s) {
  return std::to_string(s.blocks) + " blocks of (" + std::to_string(s.context) + " x " + std::to_string(s.width) +
         ") x " + std::to_string(s.intermediate);
}

}  // namespace

void save_checkpoint(const std::string& path, const checkpoint& c) {
  header h;
  h.context = c.shape.context, h.width = c.shape.width, h.intermediate = c.shape.intermediate,
  h.blocks = c.shape.blocks;
  h.alphabet = c.alphabet, h.fingerprint = c.fingerprint, h.step = c.step;
  h.seed = c.made_with.seed, h.steps = c.made_with.steps, h.batch = c.made_with.batch;
  h.rate = c.made_with.rate, h.decay = c.made_with.decay, h.clip = c.made_with.clip;
  h.values = c.state[0].size();

  temporary_file file(path);
  hash checksum = hash_of_nothing;
  const auto write = [&](std::span<const std::byte> bytes) {
    checksum = add_to(checksum, bytes);
    file.write(bytes);
  };
  write(std::as_bytes(std::span(&h, 1)));
  for (const std::vector<float>& section : c.state) write(std::as_bytes(std::span(section)));
  file.write(std::as_bytes(std::span(&checksum, 1)));
  file.rename_to(path);
}

checkpoint load_checkpoint(const std::string& path, const model_shape& shape) {
  const auto refuse = [&path](const std::string& what) { throw bad_input(path + ": " + what); };
  std::error_code failed;
  std::ifstream in(path, std::ios::binary);
  const std::uint64_t size = fs::file_size(fs::path(path), failed);
  if (!in || failed) refuse("the checkpoint cannot be read: " + (failed ? failed.message() : std::strerror(errno)));
  const auto read = [&](void* to, std::size_t bytes) {
    if (!in.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))) refuse("the checkpoint cannot be read");
  };

  header h;
  const header expected;
  if (size < sizeof h + sizeof(hash)) refuse("is no checkpoint, or one that was cut off");
  read(&h, sizeof h);
  if (h.magic != expected.magic) refuse("is no checkpoint of this program");
  if (h.byte_order != expected.byte_order) refuse("is a checkpoint of a machine with another byte order");
  if (h.format != expected.format)
    refuse("is a checkpoint of format " + std::to_string(h.format) + ", this program reads " +
           std::to_string(expected.format));
  if (model_shape{h.context, h.width, h.intermediate, h.blocks} != shape)
    refuse("is of another model: " + described({h.context, h.width, h.intermediate, h.blocks}) + ", this program has " +
           described(shape));
  if (h.alphabet > 256 || h.values != values_of(shape, h.alphabet) ||
      size != sizeof h + 3 * h.values * sizeof(float) + sizeof(hash))
    refuse("is a checkpoint that was cut off or damaged: its size does not fit");

  hash checksum = add_to(hash_of_nothing, std::as_bytes(std::span(&h, 1)));
  std::array<std::byte, 1 << 14> part;
  for (std::uint64_t left = size - sizeof h - sizeof(hash); left > 0;) {
    const std::size_t n = std::min<std::uint64_t>(left, part.size());
    read(part.data(), n);
    checksum = add_to(checksum, std::span(part).first(n));
    left -= n;
  }
  hash written = 0;
  read(&written, sizeof written);
  if (checksum != written) refuse("is a damaged checkpoint: its checksum does not fit");

  checkpoint c{.shape = shape,
               .alphabet = h.alphabet,
               .fingerprint = h.fingerprint,
               .step = h.step,
               .made_with = {h.seed, h.steps, h.batch, h.rate, h.decay, h.clip},
               .state = {}};
  in.seekg(sizeof h);
  for (std::vector<float>& section : c.state) {
    section.resize(h.values);
    read(section.data(), section.size() * sizeof(float));
  }
  return c;
}

void check_writable(const std::string& path) {
  std::error_code failed;
  const fs::path folder = folder_of(path);
  if (!fs::is_directory(folder, failed)) throw bad_input(path + ": there is no folder " + folder.string());
  if (fs::exists(fs::path(path), failed)) {
    header h;
    h.magic = {};
    std::ifstream in(path, std::ios::binary);
    if (fs::is_directory(fs::path(path), failed) || !in.read(h.magic.data(), h.magic.size()) ||
        h.magic != header{}.magic)
      throw bad_input(path + ": is there already, and is no checkpoint: it will not be replaced");
  }
  if (::access(folder.c_str(), W_OK) != 0)
    throw bad_input(path + ": the folder " + folder.string() + " cannot be written to");
}

}  // namespace char_lm

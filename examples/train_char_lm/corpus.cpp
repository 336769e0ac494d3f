// SPDX-License-Identifier: MIT
#include "corpus.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bad_input.hpp"

namespace char_lm {

namespace {

namespace fs = std::filesystem;

struct file {
  std::string name, characters;
};

file read_file(const std::string& path, std::size_t context) {
  std::error_code failed;
  if (fs::is_directory(fs::path(path), failed)) throw bad_input(path + ": is a directory, not a text file");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream contents;
  if (in && in.peek() != std::ifstream::traits_type::eof()) contents << in.rdbuf();
  if (!in.is_open() || in.bad() || !contents)
    throw bad_input(path + ": cannot be read" + (errno != 0 ? std::string(": ") + std::strerror(errno) : ""));
  file read{fs::path(path).filename().string(), contents.str()};
  if (read.characters.size() <= context)
    throw bad_input(path + ": too short: " + std::to_string(read.characters.size()) +
                    " characters, but a file needs more than the " + std::to_string(context) + " of a context");
  return read;
}

constexpr std::string_view licences = "/usr/share/common-licenses";

// The files of the folder have families that share whole paragraphs (GPL with LGPL and GFDL, MPL-1.1 with MPL-2.0): to
// hold out one of a family would be to learn it by heart from its sibling. Of these two, 3 and 1 percent of all runs of
// 24 characters occur in the others.
constexpr std::array<std::string_view, 2> licences_held_out{"Artistic", "CC0-1.0"};

void find_default_files(std::vector<std::string>& files, std::vector<std::string>& held_out) {
  std::error_code failed;
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(licences), failed))
    if (entry.is_regular_file(failed) && !entry.is_symlink(failed)) found.push_back(entry.path().string());
  std::ranges::sort(found);
  if (found.size() < 2) {
    files = {"LICENSE"};
    if (!fs::is_regular_file(fs::path(files[0]), failed))
      throw bad_input("no text: " + std::string(licences) +
                      " is not there, nor is ./LICENSE; name files on the command line");
    return;
  }
  const bool choose = held_out.empty();
  for (std::string& path : found) {
    const bool hold_out = choose && std::ranges::count(licences_held_out, fs::path(path).filename().string()) > 0;
    (hold_out ? held_out : files).push_back(std::move(path));
  }
}

}  // namespace

void text::append(std::string name, std::vector<symbol> file) {
  names_ += (names_.empty() ? "" : ", ") + name;
  starts_.push_back(symbols_.size());
  symbols_.insert(symbols_.end(), file.begin(), file.end());
}

void text::context(std::size_t at, symbol before_file, std::span<symbol> out) const {
  const std::size_t start = *std::prev(std::ranges::upper_bound(starts_, at));
  const std::size_t there = std::min(out.size(), at - start);
  std::fill(out.begin(), out.end() - static_cast<std::ptrdiff_t>(there), before_file);
  std::copy_n(symbols_.begin() + static_cast<std::ptrdiff_t>(at - there), there,
              out.end() - static_cast<std::ptrdiff_t>(there));
}

std::uint64_t corpus::fingerprint() const {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (const char c : alphabet) add(static_cast<unsigned char>(c));
  for (const text* part : {&training, &validation}) {
    add(part->size());
    for (const symbol s : part->symbols()) add(s);
  }
  return hash;
}

corpus read_corpus(std::vector<std::string> files, std::vector<std::string> held_out, std::size_t context) {
  if (files.empty()) find_default_files(files, held_out);
  if (held_out.empty() && files.size() > 1) {
    held_out.push_back(std::move(files.back()));
    files.pop_back();
  }

  corpus result;
  std::vector<file> training, validation;
  for (const std::string& path : files) training.push_back(read_file(path, context));
  for (const std::string& path : held_out) {
    validation.push_back(read_file(path, context));
    for (const file& learned : training)
      if (learned.characters == validation.back().characters)
        throw bad_input(path + ": the same text is learned and held out: validation would measure nothing");
  }
  if (validation.empty()) {
    result.same_file = true;
    std::string& whole = training[0].characters;
    const std::size_t tenth = std::max<std::size_t>(whole.size() / 10, 1);
    validation.push_back({"the last tenth of " + training[0].name, whole.substr(whole.size() - tenth)});
    whole.erase(whole.size() - tenth);
  }

  std::array<bool, 256> used{};
  used[static_cast<unsigned char>('\n')] = true;
  for (const auto* side : {&training, &validation})
    for (const file& f : *side)
      for (const char c : f.characters) used[static_cast<unsigned char>(c)] = true;
  std::array<symbol, 256> number{};
  for (std::size_t c = 0; c < used.size(); ++c) {
    if (!used[c]) continue;
    number[c] = static_cast<symbol>(result.alphabet.size());
    result.alphabet.push_back(static_cast<char>(c));
  }
  result.line_end = number[static_cast<unsigned char>('\n')];

  const auto append = [&](text& to, std::vector<file>& from) {
    for (file& f : from) {
      std::vector<symbol> symbols;
      symbols.reserve(f.characters.size());
      for (const char c : f.characters) symbols.push_back(number[static_cast<unsigned char>(c)]);
      to.append(std::move(f.name), std::move(symbols));
    }
  };
  append(result.training, training);
  append(result.validation, validation);
  return result;
}

}  // namespace char_lm

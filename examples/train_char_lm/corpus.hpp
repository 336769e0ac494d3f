// SPDX-License-Identifier: MIT
#pragma once

// The text: read from files, cut into what is learned and what is held out, numbered by an alphabet.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace char_lm {

/// The number of a character in the alphabet.
using symbol = std::uint8_t;

/// Files one after the other. Every character can be predicted: what comes before the first of a file is line ends.
class text {
 public:
  void append(std::string name, std::vector<symbol> file);

  std::size_t size() const { return symbols_.size(); }
  symbol operator[](std::size_t at) const { return symbols_[at]; }
  /// The symbols before position `at`, of the same file; `before_file` where the file had not begun.
  void context(std::size_t at, symbol before_file, std::span<symbol> out) const;

  std::span<const symbol> symbols() const { return symbols_; }
  std::size_t files() const { return starts_.size(); }
  /// The names of the files, separated by commas.
  const std::string& names() const { return names_; }

 private:
  std::vector<symbol> symbols_;
  std::vector<std::size_t> starts_;
  std::string names_;
};

struct corpus {
  text training, validation;
  /// The characters (bytes) in use, ascending; '\n' always is. That the validation text has a say in it gives nothing
  /// away but the characters themselves.
  std::string alphabet;
  symbol line_end = 0;
  /// The only file gave its last tenth to validation: an easier test than text from elsewhere.
  bool same_file = false;

  /// Equal for equal texts and, but for an accident of 2^-64, only for these.
  std::uint64_t fingerprint() const;
};

/// Reads `files`; those in `held_out` are for validation only. Where `held_out` is empty, the last of several files is
/// held out, or the last tenth of a single one. Without `files`: the licences that Debian ships, else ./LICENSE.
/// Throws bad_input: a file that cannot be read, has no more than `context` characters, or equals one on the other
/// side.
corpus read_corpus(std::vector<std::string> files, std::vector<std::string> held_out, std::size_t context);

}  // namespace char_lm

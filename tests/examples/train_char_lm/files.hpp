// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include "bad_input.hpp"

/// A folder that is gone after the test.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "char_lm_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& contents) const {
    std::filesystem::remove(path(name));  // some file systems wait for the disk when a file is replaced in place
    std::ofstream(path(name), std::ios::binary) << contents;
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::ptrdiff_t files() const { return std::distance(std::filesystem::directory_iterator(path_), {}); }

 private:
  std::filesystem::path path_;
};

/// What the bad_input that `f` throws says: one line. Empty if it throws none.
template <class F>
std::string complaint(F f) {
  try {
    f();
  } catch (const char_lm::bad_input& wrong) {
    const std::string what = wrong.what();
    CHECK(what.find('\n') == what.npos);
    return what;
  }
  return "";
}
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

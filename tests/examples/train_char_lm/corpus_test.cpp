// SPDX-License-Identifier: MIT
#include "corpus.hpp"

#include <array>

#include "files.hpp"

using namespace char_lm;

namespace {

std::string written(const corpus& of, std::span<const symbol> symbols) {
  std::string text;
  for (const symbol s : symbols) text.push_back(of.alphabet[s]);
  return text;
}

}  // namespace

TEST_CASE("the last of several files is held out, whole") {
  const temporary_folder folder;
  const corpus of =
      read_corpus({folder.write("a", "abcabc"), folder.write("b", "dadadada"), folder.write("c", "xyxyx")}, {}, 4);
  CHECK(of.alphabet == "\nabcdxy");
  CHECK(of.alphabet[of.line_end] == '\n');
  CHECK(written(of, of.training.symbols()) == "abcabcdadadada");
  CHECK(written(of, of.validation.symbols()) == "xyxyx");
  CHECK(of.training.names() == "a, b");
  CHECK(of.training.files() == 2);
  CHECK(of.validation.names() == "c");
  CHECK_FALSE(of.same_file);
}

TEST_CASE("the user says what is held out") {
  const temporary_folder folder;
  const std::string a = folder.write("a", "aaaaaa"), b = folder.write("b", "bbbbbb"), c = folder.write("c", "cccccc");
  const corpus of = read_corpus({a}, {b, c}, 4);
  CHECK(written(of, of.training.symbols()) == "aaaaaa");
  CHECK(written(of, of.validation.symbols()) == "bbbbbbcccccc");
}

TEST_CASE("a single file gives its last tenth, and it is said") {
  const temporary_folder folder;
  const corpus of = read_corpus({folder.write("a", "0123456789abcdefghijklmno")}, {}, 4);
  CHECK(of.same_file);
  CHECK(written(of, of.training.symbols()) == "0123456789abcdefghijklm");
  CHECK(written(of, of.validation.symbols()) == "no");
}

TEST_CASE("a context is what came before in the same file, line ends before that") {
  const temporary_folder folder;
  const corpus of =
      read_corpus({folder.write("a", "abcde"), folder.write("b", "vwxyz")}, {folder.write("c", "cdcdcd")}, 4);
  const auto context = [&](std::size_t at) {
    std::array<symbol, 3> symbols{};
    of.training.context(at, of.line_end, symbols);
    return written(of, symbols);
  };
  CHECK(context(0) == "\n\n\n");
  CHECK(context(1) == "\n\na");
  CHECK(context(4) == "bcd");
  CHECK(context(5) == "\n\n\n");
  CHECK(context(7) == "\nvw");
  CHECK(context(9) == "wxy");
}

TEST_CASE("every byte is a character") {
  const temporary_folder folder;
  std::string all;
  for (int c = 0; c < 256; ++c) all.push_back(static_cast<char>(c));
  const corpus of = read_corpus({folder.write("a", all)}, {folder.write("b", all + "x")}, 4);
  CHECK(of.alphabet.size() == 256);
  CHECK(written(of, of.training.symbols()) == all);
}

TEST_CASE("a fingerprint tells texts apart, and where they were cut") {
  const temporary_folder folder;
  const std::string a = folder.write("a", "abababab"), b = folder.write("b", "babababab"),
                    c = folder.write("c", "abababaa");
  CHECK(read_corpus({a}, {b}, 4).fingerprint() == read_corpus({a}, {b}, 4).fingerprint());
  CHECK(read_corpus({a}, {b}, 4).fingerprint() != read_corpus({b}, {a}, 4).fingerprint());
  CHECK(read_corpus({a}, {b}, 4).fingerprint() != read_corpus({c}, {b}, 4).fingerprint());
}

TEST_CASE("a text that cannot serve is refused") {
  const temporary_folder folder;
  const std::string good = folder.write("good", "abcdefg"), again = folder.write("again", "abcdefg");
  const std::string shorter = folder.write("shorter", "abcd"), empty = folder.write("empty", "");
  const auto refused = [](std::vector<std::string> files, std::vector<std::string> held_out = {}) {
    return complaint([&] { read_corpus(files, held_out, 4); });
  };
  CHECK(contains(refused({folder.path("missing")}), "missing: cannot be read: No such file"));
  CHECK(contains(refused({folder.path("")}), "is a directory"));
  CHECK(contains(refused({good, empty}), "empty: too short: 0 characters"));
  CHECK(contains(refused({shorter, good}), "shorter: too short: 4 characters"));
  CHECK(contains(refused({good}, {shorter}), "shorter: too short"));
  CHECK(contains(refused({good}, {again}), "again: the same text is learned and held out"));
  CHECK(contains(refused({good}, {good}), "the same text"));
  CHECK(refused({good}) == "");
}

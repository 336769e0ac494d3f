// SPDX-License-Identifier: MIT
#include "entropy.hpp"

#include <cmath>

#include "files.hpp"

using namespace char_lm;

TEST_CASE("a text of its own counts") {
  const temporary_folder folder;
  // Half a, half b, in turn: a character alone is worth one bit, after the one before nothing. The line end before the
  // file is always followed by a.
  const corpus of = read_corpus({folder.write("a", "abababab")}, {folder.write("b", "ababab")}, 4);
  const table_bits own = bits_by_table(of.validation, of.validation, of, 0);
  CHECK(own.unigram == doctest::Approx(1));
  CHECK(own.bigram == doctest::Approx(0));
}

TEST_CASE("the counts of another text, one added to each") {
  const temporary_folder folder;
  const corpus of = read_corpus({folder.write("a", "aaab")}, {folder.write("b", "bcaa")}, 3);
  REQUIRE(of.alphabet == "\nabc");
  const table_bits predicted = bits_by_table(of.training, of.validation, of, 1);
  CHECK(predicted.unigram == doctest::Approx(-std::log2(2.0 / 8 * 1.0 / 8 * 4.0 / 8 * 4.0 / 8) / 4));
  // Pairs of the first text: (line end, a), (a, a) twice, (a, b). Asked for: (line end, b), (b, c), (c, a), (a, a).
  CHECK(predicted.bigram == doctest::Approx(-std::log2(1.0 / 5 * 1.0 / 4 * 1.0 / 4 * 3.0 / 7) / 4));
}

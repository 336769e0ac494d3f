// SPDX-License-Identifier: MIT
#pragma once

// The yardsticks: what tables of characters and of pairs of characters need to write a text down, in bits per
// character.
//
//     unigram   p(c)     = (n(c) + s) / (N + s V)            n: counts, V: size of the alphabet, s: smoothing
//     bigram    p(c | b) = (n(b c) + s) / (n(b) + s V)       b: the character before c, a line end before a file
//
// With the counts of another text, s = 1 (Laplace): how well a table predicts. With the text's own counts, s = 0: the
// entropy of the text, below which no table of the kind can come.

#include <cstddef>

#include "corpus.hpp"

namespace char_lm {

struct table_bits {
  double unigram, bigram;
};

/// Bits per character of `written` by the counts of `counted`. With smoothing 0 the two texts have to be the same.
table_bits bits_by_table(const text& counted, const text& written, const corpus& of, double smoothing);

}  // namespace char_lm

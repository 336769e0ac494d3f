// SPDX-License-Identifier: MIT
#include "entropy.hpp"

#include <cmath>
#include <span>
#include <vector>

namespace char_lm {

table_bits bits_by_table(const text& counted, const text& written, const corpus& of, double smoothing) {
  const std::size_t alphabet = of.alphabet.size();
  std::vector<double> single(alphabet), before(alphabet), pair(alphabet * alphabet);
  const auto each = [&](const text& t, auto use) {
    for (std::size_t at = 0; at < t.size(); ++at) {
      symbol previous = 0;
      t.context(at, of.line_end, std::span(&previous, 1));
      use(previous, t[at]);
    }
  };
  each(counted, [&](std::size_t b, std::size_t c) {
    ++single[c];
    ++before[b];
    ++pair[b * alphabet + c];
  });

  const double everything = static_cast<double>(counted.size()), spread = smoothing * static_cast<double>(alphabet);
  table_bits bits{};
  each(written, [&](std::size_t b, std::size_t c) {
    bits.unigram -= std::log2((single[c] + smoothing) / (everything + spread));
    bits.bigram -= std::log2((pair[b * alphabet + c] + smoothing) / (before[b] + spread));
  });
  const double length = static_cast<double>(written.size());
  return {bits.unigram / length, bits.bigram / length};
}

}  // namespace char_lm

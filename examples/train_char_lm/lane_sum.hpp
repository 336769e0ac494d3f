// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>

namespace char_lm {

/// term(0) + ... + term(n - 1) in 16 partial sums, which the compiler keeps in vector registers: it may not reorder a
/// sum by itself. The order depends on nothing but n.
template <class T, class Term>
T lane_sum(std::size_t n, Term term) {
  std::array<T, 16> lane{};
  std::size_t i = 0;
  for (; i + lane.size() <= n; i += lane.size())
    for (std::size_t j = 0; j < lane.size(); ++j) lane[j] += static_cast<T>(term(i + j));
  for (std::size_t j = 0; i < n; ++i, ++j) lane[j] += static_cast<T>(term(i));
  T sum{};
  for (const T part : lane) sum += part;
  return sum;
}

}  // namespace char_lm

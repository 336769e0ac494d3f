// SPDX-License-Identifier: MIT
#pragma once

// What check_communicator (comm/check.hpp) finds out about a communicator.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace swiglu {

/// The laws of communicator.hpp that can be observed, those of the refinements last.
enum class communicator_law {
  coordinates,     ///< rank() and size() are constant, and every rank has a place of its own
  sum,             ///< all_reduce adds, exactly where the sums are exact, and writes nothing outside the buffer
  not_finite,      ///< infinity and NaN reach every rank
  same_bits,       ///< the same bits on every rank, and those that reduction_order_v promises
  empty,           ///< a call with count 0 waits for every rank
  alone,           ///< with one rank nothing changes
  in_sequence,     ///< many small calls in a row do not disturb each other
  failure,         ///< no call fails without reason
  bundle,          ///< bundled_communicator
  nonblocking,     ///< nonblocking_communicator
  scatter_gather,  ///< scatter_gather_communicator
  tags,            ///< tagged_communicator
  abort            ///< abortable_communicator
};

inline constexpr std::array<std::string_view, 13> communicator_law_names{
    "coordinates", "sum",    "not_finite",  "same_bits",      "empty", "alone", "in_sequence",
    "failure",     "bundle", "nonblocking", "scatter_gather", "tags",  "abort"};

/// The laws that a communicator broke, as far as one rank knows; each once, with the first thing seen.
struct conformance_report {
  struct violation {
    communicator_law law;
    std::string what;
  };
  std::vector<violation> violations;

  bool conforms() const noexcept { return violations.empty(); }

  bool broke(communicator_law law) const {
    return std::ranges::any_of(violations, [law](const violation& v) { return v.law == law; });
  }

  /// A line per violation.
  std::string text() const {
    std::string text;
    for (const violation& v : violations)
      text.append(communicator_law_names[static_cast<std::size_t>(v.law)]).append(": ").append(v.what).append("\n");
    return text;
  }
};

}  // namespace swiglu

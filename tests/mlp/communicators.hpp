// SPDX-License-Identifier: MIT
#pragma once

// Communicators with the three members that are asked for, and nothing more.

#include <span>

namespace test {

/// Rank 0 of `size` ranks that all hold the same: a mesh without threads.
struct echo {
  int ranks = 2;

  int rank() const { return 0; }
  int size() const { return ranks; }
  void all_reduce(std::span<float> buffer) const {
    for (float& x : buffer) x *= static_cast<float>(ranks);
  }
};

/// Another communicator without its refinements.
template <class C>
struct basic {
  C& inner;

  int rank() const { return inner.rank(); }
  int size() const { return inner.size(); }
  void all_reduce(std::span<float> buffer) { inner.all_reduce(buffer); }
};

}  // namespace test

// SPDX-License-Identifier: MIT
#pragma once

// Who runs the parts of a kernel inside a rank. The library cuts the work so that every element is summed in the same
// order whatever the number of threads: an executor changes the time, never a bit.

#include <algorithm>
#include <concepts>
#include <cstddef>

#include <swiglu/shape.hpp>

namespace swiglu {

/// `threads()`: how many parts are worth making, at least 1, constant for the object's life.
/// `run(n, f)`: calls f(i) once for each i in [0, n), in any order, possibly concurrently, and returns when all have
/// returned. f does not throw. n <= threads(). A workspace holds its executor by value: a pool of one's own is given as
/// a handle to it.
template <class E>
concept executor = requires(E& e, void (*f)(std::size_t)) {
  { e.threads() } -> std::convertible_to<std::size_t>;
  e.run(std::size_t{1}, f);
};

/// Splits [0, n) into the executor's parts, each a multiple of `grain` but for the last, and runs f(part, first, last).
template <executor E, class F>
void in_parts(E& threads, std::size_t n, std::size_t grain, const F& f) {
  const std::size_t parts = std::clamp<std::size_t>(threads.threads(), 1, std::max<std::size_t>(ceil_div(n, grain), 1));
  const std::size_t step = round_up(ceil_div(n, parts), grain);
  threads.run(parts, [&](std::size_t i) { f(i, std::min(n, i * step), std::min(n, (i + 1) * step)); });
}

}  // namespace swiglu

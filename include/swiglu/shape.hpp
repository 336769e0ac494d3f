// SPDX-License-Identifier: MIT
#pragma once

// Extents of tensors, known at compile time or (`dynamic`) at run time, and the errors of a mismatch: one readable
// message with the numbers in it, from the compiler where both numbers are types, as an exception where they are not.

#include <array>
#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include <swiglu/config.hpp>

namespace swiglu {

/// An extent that is known only at run time.
inline constexpr std::size_t dynamic = static_cast<std::size_t>(-1);

/// True if two extents can be equal: they are, or one of them is known only at run time.
constexpr bool may_equal(std::size_t a, std::size_t b) { return a == b || a == dynamic || b == dynamic; }

/// The extent known of two that have to be equal: the static one, if there is one.
constexpr std::size_t known_extent(std::size_t a, std::size_t b) { return a == dynamic ? b : a; }

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) { return (n + multiple - 1) / multiple * multiple; }
constexpr std::size_t ceil_div(std::size_t n, std::size_t d) { return (n + d - 1) / d; }

/// a * b elements. Throws std::length_error if there are more than std::size_t counts.
constexpr std::size_t checked_product(std::size_t a, std::size_t b) {
  if (b != 0 && a > static_cast<std::size_t>(-1) / b) throw std::length_error("swiglu: a shape of too many elements");
  return a * b;
}

/// Thrown before anything is written when shapes known only at run time do not fit.
class shape_error : public std::invalid_argument {
 public:
  /// `where`: the function and the argument, e.g. "forward: rows of out".
  shape_error(std::string_view where, std::size_t expected, std::size_t actual)
      : std::invalid_argument("swiglu: " + std::string(where) + ": expected " + std::to_string(expected) + ", got " +
                              std::to_string(actual)) {}
};

/// Throws shape_error unless actual == expected. The text is put together only then: a check allocates nothing.
constexpr void check_extent(std::string_view where, std::size_t expected, std::size_t actual) {
  if (expected != actual) throw shape_error(where, expected, actual);
}
/// The same where the text has two parts, an argument and what of it.
constexpr void check_extent(std::string_view where, std::string_view what, std::size_t expected, std::size_t actual) {
  if (expected != actual) throw shape_error(std::string(where) + ": " + std::string(what), expected, actual);
}

/// The shape of a tensor: `extents<4, dynamic, 16>`. Only the dynamic extents are given to the constructor, in order.
template <std::size_t... E>
class extents {
  static_assert(sizeof...(E) >= 1, "swiglu: a shape has at least one extent");

 public:
  static constexpr std::size_t rank = sizeof...(E);
  static constexpr std::size_t dynamic_rank = ((E == dynamic ? 1 : 0) + ... + 0);
  static constexpr std::array<std::size_t, rank> static_extents{E...};
  static constexpr bool is_static = dynamic_rank == 0;

  /// All dynamic extents 0.
  constexpr extents() = default;

  /// One argument for each dynamic extent, in order.
  template <class... N>
    requires(sizeof...(N) == dynamic_rank && sizeof...(N) > 0 && (std::convertible_to<N, std::size_t> && ...))
  constexpr extents(N... n)  // NOLINT: extents are meant to convert from their numbers
      : values_{static_cast<std::size_t>(n)...} {}

  /// Other extents of the same rank. Throws shape_error where a static extent differs.
  template <std::size_t... F>
    requires(sizeof...(F) == sizeof...(E) && (may_equal(E, F) && ...))
  [[gnu::always_inline]] constexpr extents(const extents<F...>& other) {  // NOLINT: see above
    for (std::size_t i = 0; i < rank; ++i) {
      if (static_extents[i] == dynamic)
        values_[dynamic_before(i)] = other.extent(i);
      else
        check_extent("conversion of a shape", static_extents[i], other.extent(i));
    }
  }

  constexpr std::size_t extent(std::size_t i) const {
    return static_extents[i] == dynamic ? values_[dynamic_before(i)] : static_extents[i];
  }
  /// Elements. Throws std::length_error if there are more than std::size_t counts.
  constexpr std::size_t count() const {
    std::size_t n = 1;
    for (std::size_t i = 0; i < rank; ++i) n = checked_product(n, extent(i));
    return n;
  }

  /// As a matrix: the leading extents collapsed into rows, the last extent is the columns.
  constexpr std::size_t cols() const { return extent(rank - 1); }
  constexpr std::size_t rows() const {
    if constexpr (static_rows() != dynamic) return static_rows();
    std::size_t n = 1;
    for (std::size_t i = 0; i + 1 < rank; ++i) n *= extent(i);
    return n;
  }
  static constexpr std::size_t static_cols() { return static_extents[rank - 1]; }
  static constexpr std::size_t static_rows() {
    std::size_t n = 1;
    for (std::size_t i = 0; i + 1 < rank; ++i) {
      if (static_extents[i] == dynamic) return dynamic;
      n *= static_extents[i];
    }
    return n;
  }

  friend constexpr bool operator==(const extents& a, const extents& b) { return a.values_ == b.values_; }

 private:
  /// The place of a dynamic extent among the dynamic ones.
  static constexpr std::size_t dynamic_before(std::size_t i) {
    std::size_t n = 0;
    for (std::size_t j = 0; j < i; ++j) n += static_extents[j] == dynamic;
    return n;
  }
  std::array<std::size_t, dynamic_rank> values_{};  // only the dynamic ones: the others are constants
};

}  // namespace swiglu

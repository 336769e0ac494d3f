// SPDX-License-Identifier: MIT
#pragma once

// Comparisons to be used as CHECK(near(...)): a failure names the worst element, once.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include "oracle.hpp"

namespace test {

struct comparison {
  bool equal = true;
  std::string text = "equal";

  explicit operator bool() const { return equal; }
  friend std::ostream& operator<<(std::ostream& out, const comparison& c) { return out << c.text; }
};

namespace detail {

/// `excess(a, e, r, c)`: 0 for equal elements, above 1 for those that differ too much.
template <class X, class Y, class Excess>
comparison compare(const X& actual, const Y& expected, Excess excess) {
  std::ostringstream text;
  text.precision(17);
  if (actual.rows() != expected.rows() || actual.cols() != expected.cols()) {
    text << "shape " << actual.rows() << " x " << actual.cols() << " instead of " << expected.rows() << " x "
         << expected.cols();
    return {false, text.str()};
  }
  double worst = 1;
  std::size_t wrong = 0, row = 0, col = 0;
  for (std::size_t r = 0; r < actual.rows(); ++r)
    for (std::size_t c = 0; c < actual.cols(); ++c) {
      const double by = excess(element(actual, r, c), element(expected, r, c), r, c);
      if (by <= 1) continue;
      if (wrong++ == 0 || by > worst) worst = by, row = r, col = c;
    }
  if (wrong == 0) return {};
  text << wrong << " of " << actual.rows() << " x " << actual.cols() << " elements differ; (" << row << ", " << col
       << ") is " << element(actual, row, col) << " instead of " << element(expected, row, col) << ", " << worst
       << " times what is allowed";
  return {false, text.str()};
}

/// |a - e| in units of `allowed`; NaN equals NaN and nothing else, infinities equal themselves.
inline double excess(double a, double e, double allowed) {
  if (std::isnan(a) || std::isnan(e))
    return std::isnan(a) && std::isnan(e) ? 0 : std::numeric_limits<double>::infinity();
  if (a == e) return 0;
  const double difference = std::abs(a - e);
  return allowed > 0 ? difference / allowed : std::numeric_limits<double>::infinity();
}

}  // namespace detail

/// Element by element: |actual - expected| <= bound.
template <class X>
comparison near(const X& actual, const matrix& expected, const matrix& bound) {
  return detail::compare(actual, expected, [&](auto a, double e, std::size_t r, std::size_t c) {
    return detail::excess(static_cast<double>(a), e, bound(r, c));
  });
}
/// Element by element: |actual - expected| <= relative |expected|.
template <class X>
comparison near(const X& actual, const matrix& expected, double relative) {
  return near(actual, expected, relative * magnitudes(expected));
}
/// In the maximum norm: |actual - expected| <= relative max |expected|.
template <class X>
comparison near_in_norm(const X& actual, const matrix& expected, double relative) {
  double most = 0;
  for (std::size_t r = 0; r < expected.rows(); ++r)
    for (std::size_t c = 0; c < expected.cols(); ++c) most = std::max(most, std::abs(expected(r, c)));
  return detail::compare(actual, expected, [&](auto a, double e, std::size_t, std::size_t) {
    return detail::excess(static_cast<double>(a), e, relative * most);
  });
}
/// Equal numbers (0 equals -0, NaN equals NaN).
template <class X, class Y>
comparison equal(const X& actual, const Y& expected) {
  return detail::compare(actual, expected, [&](auto a, auto e, std::size_t, std::size_t) {
    return detail::excess(static_cast<double>(a), static_cast<double>(e), 0);
  });
}
/// Equal to the bit, or both NaN: which of two NaN an operation returns depends on the order in which the compiler has
/// them.
template <class T>
bool same_bits(T a, T b) requires std::is_floating_point_v<T> {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (a != a && b != b);
}
/// The same of all elements.
template <class X, class Y>
comparison same_bits(const X& actual, const Y& expected) {
  return detail::compare(actual, expected, [&](auto a, auto e, std::size_t, std::size_t) {
    static_assert(std::is_same_v<decltype(a), decltype(e)>);
    return same_bits(a, e) ? 0 : std::numeric_limits<double>::infinity();
  });
}

/// Many comparisons in one check: CHECK(tally) fails if one of them failed, or if there were none.
class tally {
 public:
  /// `name...`: what the case is called in the report, written one after the other.
  template <class... Name>
  void operator()(const comparison& c, const Name&... name) {
    ++cases_;
    if (c || wrong_++ != 0) return;
    std::ostringstream first;
    ((first << name << ' '), ...);
    first_ = first.str() + ": " + c.text;
  }
  template <class... Name>
  void operator()(bool equal, const Name&... name) {
    (*this)(comparison{equal, equal ? "equal" : "differ"}, name...);
  }
  explicit operator bool() const { return cases_ > 0 && wrong_ == 0; }
  friend std::ostream& operator<<(std::ostream& out, const tally& t) {
    if (t.wrong_ == 0) return out << t.cases_ << " cases";
    return out << t.wrong_ << " of " << t.cases_ << " cases differ; the first: " << t.first_;
  }

 private:
  std::size_t cases_ = 0, wrong_ = 0;
  std::string first_;
};

}  // namespace test

// SPDX-License-Identifier: MIT
#pragma once

// Memory that finds out who reads or writes beyond the extents given: a canary lies before, after and (with a row
// pitch) between the rows. It is a NaN, so that a number computed from it shows; the address sanitizer refuses to touch
// it.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include <swiglu/panels.hpp>

#include "build.hpp"
#include "compare.hpp"

#if SWIGLU_TEST_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace test {

/// A NaN that no computation makes.
template <class T>
T canary() {
  using bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const auto pattern = static_cast<bits>(sizeof(T) == 4 ? 0x7fedbeefU : 0x7ffedeadbeeffeedU);
  T x;
  std::memcpy(&x, &pattern, sizeof x);
  return x;
}

/// A matrix of `rows` rows, `pitch` elements apart (0: contiguous), whose first element lies `offset` elements behind a
/// 64-byte boundary. Its elements, too, are canaries at first.
template <class T>
class guarded {
 public:
  guarded(std::size_t rows, std::size_t cols, std::size_t pitch = 0, std::size_t offset = 0)
      : rows_(rows), cols_(cols), pitch_(pitch == 0 ? cols : pitch) {
    const std::size_t used = rows == 0 ? 0 : (rows - 1) * pitch_ + cols;
    memory_.assign(guard + offset + used + guard + swiglu::alignment / sizeof(T), canary<T>());
    const auto misaligned = reinterpret_cast<std::uintptr_t>(memory_.data()) % swiglu::alignment;
    first_ = guard + offset + (swiglu::alignment - misaligned) % swiglu::alignment / sizeof(T);
    poison(true);
  }
  guarded(const guarded&) = delete;
  guarded& operator=(const guarded&) = delete;
  ~guarded() { poison(false); }

  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  T* data() { return memory_.data() + first_; }
  swiglu::view<T, swiglu::dynamic, swiglu::dynamic> view() {
    return {data(), swiglu::extents<swiglu::dynamic, swiglu::dynamic>{rows_, cols_}, pitch_};
  }

  /// Whether every canary around the elements is still there.
  comparison intact() {
    poison(false);
    std::size_t dead = 0;
    each_gap([&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) dead += same_bits(memory_[i], canary<T>()) ? 0 : 1;
    });
    poison(true);
    return {dead == 0, dead == 0 ? "equal" : std::to_string(dead) + " elements around the matrix were written"};
  }

 private:
  static constexpr std::size_t guard = 64;

  /// f(from, to) for every stretch of memory that is not the matrix's.
  template <class F>
  void each_gap(F f) const {
    std::size_t from = 0;
    for (std::size_t r = 0; r < rows_; ++r) {
      f(from, first_ + r * pitch_);
      from = first_ + r * pitch_ + cols_;
    }
    f(from, memory_.size());
  }
  void poison([[maybe_unused]] bool yes) {
#if SWIGLU_TEST_ADDRESS_SANITIZER
    each_gap([&](std::size_t from, std::size_t to) {
      if (yes)
        __asan_poison_memory_region(memory_.data() + from, (to - from) * sizeof(T));
      else
        __asan_unpoison_memory_region(memory_.data() + from, (to - from) * sizeof(T));
    });
#endif
  }

  std::size_t rows_, cols_, pitch_, first_ = 0;
  std::vector<T> memory_;
};

/// Panels in guarded memory: whole strips (`Paired` false) or two matrices by half strips. Padding belongs to them and
/// is 0 at first, as are the elements.
template <class T, bool Paired = false>
class guarded_panels {
  static constexpr std::size_t strip = swiglu::strip_columns<T>;

 public:
  static constexpr std::size_t run = Paired ? strip / 2 : strip;

  guarded_panels(std::size_t rows, std::size_t cols)
      : rows_(rows), cols_(cols), memory_(swiglu::ceil_div(cols, run) * rows, strip) {
    for (std::size_t i = 0; i < memory_.rows() * strip; ++i) memory_.data()[i] = T(0);
  }
  swiglu::panel_view<T, run> first() { return {memory_.data(), rows_, cols_, rows_ * strip}; }
  swiglu::panel_view<T, run> second() requires Paired { return {memory_.data() + run, rows_, cols_, rows_ * strip}; }
  swiglu::panel_view<T, run> view() requires(!Paired) { return first(); }
  comparison intact() { return memory_.intact(); }
  /// Whether every element of the padding is 0.
  comparison padded() {
    for (const std::size_t part : {std::size_t{0}, strip - run})
      for (std::size_t c = cols_; c < swiglu::round_up(cols_, run); ++c)
        for (std::size_t r = 0; r < rows_; ++r)
          if (*(first().at(r, c) + part) != T(0)) return {false, "padding column " + std::to_string(c) + " is not 0"};
    return {};
  }

 private:
  std::size_t rows_, cols_;
  guarded<T> memory_;
};

}  // namespace test

// SPDX-License-Identifier: MIT

#include <doctest/doctest.h>

#include <cstddef>

#include <swiglu/gemm/pack.hpp>

#include "support/operands.hpp"

using namespace swiglu;
using test::layout;

TEST_CASE_TEMPLATE("row-major matrices go to panels whole, padding is zeroed, and only the rows asked for", T, float,
                   double) {
  constexpr std::size_t p = strip_columns<T>;
  test::tally cases;
  for (const std::size_t rows : test::sizes{1, 3, 17})
    for (const std::size_t cols :
         test::sizes{std::size_t{1}, p / 2 - 1, p / 2, p / 2 + 1, p - 1, p, p + 1, 2 * p, 3 * p - 1})
      for (const std::size_t pitch : test::sizes{cols, cols + 5}) {
        test::guarded<T> from(rows, cols, pitch, 1);
        test::fill(from.view(), rows + cols);
        test::guarded_panels<T> whole(rows, cols);
        test::guarded_panels<T, true> pair(rows, cols);
        const auto check = [&](auto& panels, auto to) {
          for (std::size_t i = 0; i < rows * ceil_div(cols, to.run) * p; ++i) panels.first().data()[i] = 9;
          copy_to_panels(from.view(), to, 0, rows);
          cases(test::same_bits(to, from.view()), rows, cols, pitch);
          cases(panels.intact(), rows, cols, pitch);
          bool padded = true;
          for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = cols; c < round_up(cols, to.run); ++c) padded = padded && *to.at(r, c) == 0;
          cases(padded, "padding", rows, cols);
        };
        check(whole, whole.view());
        check(pair, pair.first());
        cases(*pair.second().at(0, 0) == 9, "the other half");
        check(pair, pair.second());
        cases(*pair.first().at(rows - 1, cols - 1) == 9, "the other half");
        copy_to_panels(from.view(), pair.first(), 1, rows);
        cases(*pair.first().at(0, 0) == 9, "row 0");
      }
  CHECK(cases);
}

TEST_CASE_TEMPLATE("a register of columns of any right operand", T, float, double) {
  constexpr std::size_t size = pack<T>::size;
  constexpr std::size_t rows = 5 * size + 3, cols = 3 * size + 2, pitch = 2 * size + 1;
  const auto original = test::random_tensor<T>(rows, cols, 1);
  test::tally cases;
  for (const layout in : {layout::rows, layout::whole, layout::first, layout::second})
    for (const bool transposed : {false, true})
      for (const std::size_t columns : test::sizes{cols, size, std::size_t{1}}) {
        const test::operand_kind kind{in, transposed};
        const test::stored<T> from(original, rows, columns, kind);
        for (std::size_t k = 0; k < rows; k += size)
          for (std::size_t depth = 0; k + depth <= rows; ++depth)
            for (std::size_t column = 0; column < cols + size; column += size) {
              test::guarded<T> to(depth, size, pitch);
              pack_register_column(from.right(), k, depth, column, columns, to.data(), pitch);
              cases(to.intact(), kind, columns, k, depth, column);
              bool right = true;
              for (std::size_t i = 0; i < depth; ++i)
                for (std::size_t lane = 0; lane < size; ++lane) {
                  const T expected = column + lane < columns ? original(k + i, column + lane) : T(0);
                  right = right && test::same_bits(to.view()(i, lane), expected);
                }
              cases(right, kind, columns, k, depth, column);
            }
      }
  CHECK(cases);
}

TEST_CASE_TEMPLATE("where there is no memory there are no addresses", T, float, double) {
  constexpr std::size_t p = strip_columns<T>;
  for (const bool transposed : {false, true}) {
    const left_operand<T> left{nullptr, 0, p, transposed};
    const right_operand<T> rows{nullptr, 7, 0, transposed}, strips{nullptr, 3 * p, p, transposed};
    for (const std::size_t i : test::sizes{0, 1, p, 3 * p + 1}) {
      CHECK(left.at(i, 2 * p) == nullptr);
      CHECK(rows.at(i, 2 * p).data == nullptr);
      CHECK(strips.at(i, 2 * p).data == nullptr);
    }
  }
  panels<T> to(3, 0);
  copy_to_panels(view<const T, dynamic, dynamic>(nullptr, {3, 0}, 7), to.view(), 0, 3);
  CHECK(to.bytes() == 0);
}

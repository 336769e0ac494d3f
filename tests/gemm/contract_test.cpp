// SPDX-License-Identifier: MIT
// The contraction engine by itself, below the expressions. Integer operands make results exact: a term that is missing
// or counted twice cannot hide behind a tolerance.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <swiglu/gemm/contract.hpp>
#include <swiglu/gemm/stream.hpp>

#include "support/build.hpp"
#include "support/operands.hpp"

using namespace swiglu;
using test::layout;
using test::operand_kind;
using test::to_matrix;

namespace {

constexpr std::array<operand_kind, 6> left_kinds{{{layout::whole, false},
                                                  {layout::whole, true},
                                                  {layout::first, false},
                                                  {layout::first, true},
                                                  {layout::second, false},
                                                  {layout::second, true}}};
constexpr std::array<operand_kind, 8> right_kinds{{{layout::rows, false},
                                                   {layout::rows, true},
                                                   {layout::whole, false},
                                                   {layout::whole, true},
                                                   {layout::first, false},
                                                   {layout::first, true},
                                                   {layout::second, false},
                                                   {layout::second, true}}};

/// How the work is cut. With caches of one byte every block is as small as it gets, and everything is worth packing.
struct cut {
  std::size_t parts = 1;
  cache_sizes cache = default_caches;
};
constexpr cache_sizes no_caches{1, 1};

/// A contraction with its terms and its results.
template <class T>
class kernel {
 public:
  kernel(std::size_t rows, std::size_t cols) { shape_.rows = rows, shape_.cols = cols; }

  /// A group: the sum of these products.
  void add(std::vector<product_term<T>> terms) {
    terms_.push_back(std::move(terms));
    shape_.terms[shape_.groups++] = terms_.back();
  }
  /// Runs in memory that is NaN at first. Every element has to be delivered once, by the right tile. Where the rows are
  /// few enough to stream the right operands, that has to come to the same bits.
  void run(cut how = {}) {
    run_as(contraction_plan<T>(shape_, select_kernel<T, most_groups>, how.parts, how.cache), how.parts);
    const stream_plan<T> few_rows(shape_, how.cache);
    if (!few_rows.fits()) return;
    const auto packed = std::move(results_);
    run_as(few_rows, how.parts);
    for (std::size_t g = 0; g < shape_.groups; ++g)
      same_bits_ = same_bits_ && static_cast<bool>(test::same_bits(results_[g], packed[g]));
  }
  const test::dynamic_tensor<T>& result(std::size_t group) const { return results_[group]; }
  bool clean() const {
    return intact_ && same_bits_ && std::all_of(deliveries_.begin(), deliveries_.end(), [](int n) { return n == 1; });
  }

 private:
  template <class Plan>
  void run_as(const Plan& plan, std::size_t parts) {
    results_.assign(shape_.groups, test::dynamic_tensor<T>(shape_.rows, shape_.cols));
    deliveries_.assign(shape_.rows * shape_.cols, 0);
    const auto epilogue = [&](const product_tile<T>& tile) {
      for (std::size_t r = 0; r < tile.rows; ++r)
        for (std::size_t c = 0; c < tile.cols; ++c) {
          ++deliveries_[(tile.row + r) * shape_.cols + tile.col + c];
          for (std::size_t g = 0; g < shape_.groups; ++g)
            results_[g](tile.row + r, tile.col + c) = tile.group[g][r * tile.pitch[g] + c];
        }
    };
    const std::size_t step = ceil_div(plan.strips(), parts);
    for (std::size_t first = 0; first < plan.strips(); first += step) {
      test::guarded<T> memory(1, plan.scratch());
      plan.run(first, std::min(first + step, plan.strips()), epilogue_ref<T>(epilogue), memory.data());
      intact_ = intact_ && memory.intact();
    }
  }

  contraction<T> shape_;
  std::deque<std::vector<product_term<T>>> terms_;
  std::vector<test::dynamic_tensor<T>> results_;
  std::vector<int> deliveries_;
  bool intact_ = true, same_bits_ = true;
};

template <class T>
product_term<T> term(const test::stored<T>& left, const test::stored<T>& right, std::size_t depth) {
  return {left.left(), right.right(), depth};
}

/// Several products, each with operands of its own or with those of another one, and what they are.
template <class T>
class family {
 public:
  family(std::size_t rows, std::size_t cols, std::size_t depth) : rows_(rows), cols_(cols), depth_(depth) {}

  std::size_t new_left(operand_kind kind = {layout::whole, false}) {
    left_.emplace_back(rows_, depth_, ++seed_, kind);
    return left_.size() - 1;
  }
  std::size_t new_right(operand_kind kind = {layout::rows, false}) {
    right_.emplace_back(depth_, cols_, ++seed_, kind);
    return right_.size() - 1;
  }
  product_term<T> term(std::size_t left, std::size_t right) const {
    return ::term(left_[left].in, right_[right].in, depth_);
  }
  right_operand<T> right(std::size_t i) const { return right_[i].in.right(); }
  test::matrix right_matrix(std::size_t i) const { return to_matrix(right_[i].original); }
  test::matrix product(std::size_t left, std::size_t right) const {
    return test::product(to_matrix(left_[left].original), right_matrix(right));
  }

 private:
  struct operand {
    test::dynamic_tensor<T> original;
    test::stored<T> in;
    operand(std::size_t rows, std::size_t cols, std::uint64_t seed, operand_kind kind)
        : original(test::integer_tensor<T>(rows, cols, seed)), in(original, rows, cols, kind) {}
  };
  std::size_t rows_, cols_, depth_;
  std::uint64_t seed_ = 0;
  std::deque<operand> left_, right_;
};

/// Shapes for kernels of several products: fewer, with every kind of remainder and of k blocks.
template <class F>
void each_larger_shape(F f) {
  for (const std::size_t depth : test::sizes{0, 1, 33, 600, 1100})
    for (const std::size_t rows : test::sizes{1, 5, 6, 7, 13, 18, 27})
      for (const std::size_t cols : test::sizes{1, 16, 17, 40, 70}) f(rows, cols, depth);
}

}  // namespace

TEST_CASE_TEMPLATE("one product of all shapes, from panels by a row-major matrix", T, float, double) {
  const test::exact_products<T> exact;
  test::tally cases;
  test::each_shape(0, test::fast_build ? 1 : 7, [&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const test::stored<T> left(exact.left, rows, depth, {layout::whole, false});
    const test::stored<T> right(exact.right, depth, cols, {layout::rows, false});
    kernel<T> k(rows, cols);
    k.add({term(left, right, depth)});
    k.run();
    cases(k.clean(), rows, cols, depth);
    cases(test::equal(k.result(0), exact.expected(rows, cols, depth)), rows, cols, depth);
  });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("one product of every kind of left by every kind of right operand", T, float, double) {
  const test::exact_products<T> exact;
  test::tally cases;
  std::size_t kind = 0;
  for (const operand_kind left_kind : left_kinds)
    for (const operand_kind right_kind : right_kinds)
      test::each_shape(kind++, test::fast_build ? 13 : 61, [&](std::size_t rows, std::size_t cols, std::size_t depth) {
        const test::stored<T> left(exact.left, rows, depth, left_kind), right(exact.right, depth, cols, right_kind);
        kernel<T> k(rows, cols);
        k.add({term(left, right, depth)});
        const test::matrix expected = exact.expected(rows, cols, depth);
        for (const cache_sizes cache : {default_caches, no_caches}) {
          k.run({1, cache});
          cases(k.clean(), left_kind, "by", right_kind, rows, cols, depth);
          cases(test::equal(k.result(0), expected), left_kind, "by", right_kind, rows, cols, depth, "L1", cache.l1);
        }
      });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("kernels of several products, by how many share a left operand", T, float, double) {
  // {2, 1}: two products of one left operand and one of another.
  const std::vector<std::vector<std::size_t>> structures{
      {2},    {3},       {4},    {5},    {8},    {1, 1}, {2, 1}, {1, 2},    {3, 1},         {1, 3},
      {4, 1}, {1, 1, 1}, {4, 2}, {4, 3}, {2, 2}, {3, 2}, {4, 4}, {2, 3, 1}, {1, 1, 1, 1, 1}};
  test::tally cases;
  std::size_t nth = 0;
  for (const auto& structure : structures)
    each_larger_shape([&](std::size_t rows, std::size_t cols, std::size_t depth) {
      if (nth++ % (test::fast_build ? sizeof(T) / 4 * 2 - 1 : 11) != 0) return;  // every third one for double
      family<T> f(rows, cols, depth);
      kernel<T> k(rows, cols);
      std::vector<test::matrix> expected;
      for (const std::size_t sharing : structure) {
        const std::size_t left = f.new_left({layout::whole, expected.size() % 3 == 2});
        for (std::size_t i = 0; i < sharing; ++i) {
          const std::size_t right = f.new_right(right_kinds[expected.size() % right_kinds.size()]);
          k.add({f.term(left, right)});
          expected.push_back(f.product(left, right));
        }
      }
      k.run();
      const auto name = [&](std::size_t group) {
        std::string text;
        for (const std::size_t n : structure) text += std::to_string(n) + "+";
        return text + " products, group " + std::to_string(group);
      };
      cases(k.clean(), name(0), rows, cols, depth);
      for (std::size_t g = 0; g < expected.size(); ++g)
        cases(test::equal(k.result(g), expected[g]), name(g), rows, cols, depth);
    });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("sums of products, of every kind of operand", T, float, double) {
  test::tally cases;
  std::size_t kind = 0;
  for (const std::size_t terms : test::sizes{2, 3, 4})
    each_larger_shape([&](std::size_t rows, std::size_t cols, std::size_t depth) {
      if (!test::fast_build && kind % 5 != 0) return void(++kind);
      family<T> f(rows, cols, depth);
      kernel<T> k(rows, cols);
      std::vector<product_term<T>> sum;
      test::matrix expected(rows, cols);
      for (std::size_t t = 0; t < terms; ++t) {
        const std::size_t left = f.new_left(left_kinds[kind % 6]), right = f.new_right(right_kinds[kind / 2 % 8]);
        ++kind;
        sum.push_back(f.term(left, right));
        expected = expected + f.product(left, right);
      }
      k.add(sum);
      k.run();
      cases(k.clean(), terms, rows, cols, depth);
      cases(test::equal(k.result(0), expected), terms, "terms", rows, cols, depth);
    });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("the halves of paired panels as two terms of a sum, in both orders, in one or several groups", T,
                   float, double) {
  test::tally cases;
  std::size_t nth = 0;
  each_larger_shape([&](std::size_t rows, std::size_t cols, std::size_t depth) {
    if (nth++ % (test::fast_build ? sizeof(T) / 4 * 2 - 1 : 11) != 0) return;
    const auto a = test::integer_tensor<T>(rows, depth, 1), b = test::integer_tensor<T>(rows, depth, 2);
    test::guarded_panels<T, true> pair(rows, depth);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < depth; ++c) pair.first()(r, c) = a(r, c), pair.second()(r, c) = b(r, c);
    const left_operand<T> first{pair.first().data(), pair.first().strip_stride(), pair.run, false};
    const left_operand<T> second{pair.second().data(), pair.second().strip_stride(), pair.run, false};

    for (const std::size_t groups : test::sizes{1, 2, 4, 5})
      for (const bool swapped : {false, true}) {
        family<T> f(rows, cols, depth);
        kernel<T> k(rows, cols);
        std::vector<test::matrix> expected;
        for (std::size_t g = 0; g < groups; ++g) {
          const std::size_t u = f.new_right(right_kinds[2 * g % 8]), v = f.new_right(right_kinds[(2 * g + 3) % 8]);
          k.add({{swapped ? second : first, f.right(u), depth}, {swapped ? first : second, f.right(v), depth}});
          expected.push_back(test::product(to_matrix(swapped ? b : a), f.right_matrix(u)) +
                             test::product(to_matrix(swapped ? a : b), f.right_matrix(v)));
        }
        k.run();
        cases(k.clean(), groups, swapped, rows, cols, depth);
        for (std::size_t g = 0; g < groups; ++g)
          cases(test::equal(k.result(g), expected[g]), groups, "groups, swapped:", swapped, rows, cols, depth);
      }
  });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("the halves of paired panels as right operands of two products: read where they lie", T, float,
                   double) {
  test::tally cases;
  each_larger_shape([&](std::size_t rows, std::size_t cols, std::size_t depth) {
    const auto a = test::integer_tensor<T>(depth, cols, 1), b = test::integer_tensor<T>(depth, cols, 2);
    test::guarded_panels<T, true> pair(depth, cols);
    for (std::size_t r = 0; r < depth; ++r)
      for (std::size_t c = 0; c < cols; ++c) pair.first()(r, c) = a(r, c), pair.second()(r, c) = b(r, c);
    const right_operand<T> first{pair.first().data(), pair.first().strip_stride(), pair.run, false};
    const right_operand<T> second{pair.second().data(), pair.second().strip_stride(), pair.run, false};
    const auto x = test::integer_tensor<T>(rows, depth, 3);
    for (const bool transposed : {false, true})
      for (const bool swapped : {false, true}) {
        const test::stored<T> left(x, rows, depth, {layout::whole, transposed});
        kernel<T> k(rows, cols);
        k.add({{left.left(), swapped ? second : first, depth}});
        k.add({{left.left(), swapped ? first : second, depth}});
        k.run();
        cases(k.clean(), rows, cols, depth);
        cases(test::equal(k.result(swapped ? 1 : 0), test::product(to_matrix(x), to_matrix(a))), rows, cols, depth);
        cases(test::equal(k.result(swapped ? 0 : 1), test::product(to_matrix(x), to_matrix(b))), rows, cols, depth);
      }
  });
  CHECK(cases);
}

TEST_CASE_TEMPLATE("more rows than a block keeps partial sums for", T, float, double) {
  test::tally cases;
  for (const std::size_t rows : test::sizes{1920, 1921, 3845})
    for (const std::size_t depth : test::sizes{2, 1100}) {
      if (!test::fast_build && depth > 2 && rows != 1921) continue;
      for (const bool transposed : {false, true}) {
        family<T> f(rows, 17, depth);
        kernel<T> k(rows, 17);
        const std::size_t left = f.new_left({layout::whole, transposed}), u = f.new_right(), v = f.new_right();
        k.add({f.term(left, u)});
        k.add({f.term(left, v)});
        k.run();
        cases(k.clean(), rows, depth);
        cases(test::equal(k.result(0), f.product(left, u)), rows, depth, transposed);
        cases(test::equal(k.result(1), f.product(left, v)), rows, depth, transposed);
      }
    }
  CHECK(cases);
}

TEST_CASE_TEMPLATE("real numbers: within the bound of a sum in some order, and the same bits however the work is cut",
                   T, float, double) {
  test::tally near, bits;
  for (const std::size_t depth : test::sizes{1, 33, 1100})
    for (const std::size_t rows : test::sizes{1, 13, 40})
      for (const std::size_t cols : test::sizes{1, 17, 100}) {
        const auto x = test::random_tensor<T>(rows, depth, 1), y = test::random_tensor<T>(rows, depth, 2);
        const auto u = test::random_tensor<T>(depth, cols, 3), v = test::random_tensor<T>(depth, cols, 4);
        const test::stored<T> left(x, rows, depth, {layout::whole, false}),
            other(y, rows, depth, {layout::first, true});
        const test::stored<T> right(u, depth, cols, {layout::rows, false}),
            second(v, depth, cols, {layout::whole, true});
        kernel<T> k(rows, cols);
        k.add({term(left, right, depth)});
        k.add({term(left, second, depth)});
        k.add({term(left, right, depth), term(other, second, depth)});
        k.run();
        const auto xu = test::product(to_matrix(x), to_matrix(u)), yv = test::product(to_matrix(y), to_matrix(v));
        const auto xu_bound = test::product_bound<T>(to_matrix(x), to_matrix(u));
        const auto yv_bound = test::product_bound<T>(to_matrix(y), to_matrix(v));
        near(test::near(k.result(0), xu, xu_bound), rows, cols, depth);
        near(test::near(k.result(2), xu + yv, 2 * (xu_bound + yv_bound)), "sum", rows, cols, depth);

        const std::vector<test::dynamic_tensor<T>> expected{k.result(0), k.result(1), k.result(2)};
        for (const std::size_t parts : test::sizes{1, 2, 3, 8})
          for (const cache_sizes cache : {default_caches, no_caches, cache_sizes{4096, 65536},
                                          cache_sizes{std::size_t{1} << 20, std::size_t{1} << 24}}) {
            k.run({parts, cache});
            bits(k.clean(), parts, "parts", rows, cols, depth);
            for (std::size_t g = 0; g < 3; ++g)
              bits(test::same_bits(k.result(g), expected[g]), parts, "parts, L1", cache.l1, rows, cols, depth);
          }
      }
  CHECK(near);
  CHECK(bits);
}

TEST_CASE("few rows are computed from row-major right operands where they are, at most eight if those are transposed") {
  const auto streams = [](std::size_t rows, operand_kind left, operand_kind right) {
    family<float> f(rows, 40, 33);
    const std::array<product_term<float>, 1> terms{f.term(f.new_left(left), f.new_right(right))};
    contraction<float> c{rows, 40, 1, {}};
    c.terms[0] = terms;
    return stream_plan<float>(c).fits();
  };
  for (const std::size_t rows : test::sizes{1, 2, 8, 9, 31, 32, 33, 100}) {
    CHECK(streams(rows, {layout::whole, false}, {layout::rows, false}) == (rows <= 32));
    CHECK(streams(rows, {layout::first, false}, {layout::rows, true}) == (rows <= 8));
    CHECK(!streams(rows, {layout::whole, true}, {layout::rows, false}));
    CHECK(!streams(rows, {layout::whole, false}, {layout::whole, false}));
  }
}

TEST_CASE_TEMPLATE("few rows of real numbers: the bits of the packed way, halves of paired panels as terms included", T,
                   float, double) {
  test::tally cases;
  for (const std::size_t rows : test::sizes{1, 3, 8, 20})
    for (const std::size_t depth : test::sizes{1, 16, 37, 100})
      for (const std::size_t cols : test::sizes{1, 16, 45, 150})
        for (const bool transposed : {false, true})
          for (const bool mixed : {false, true}) {
            const auto a = test::random_tensor<T>(rows, depth, 1), b = test::random_tensor<T>(rows, depth, 2);
            const auto u = test::random_tensor<T>(depth, cols, 3), v = test::random_tensor<T>(depth, cols, 4);
            test::guarded_panels<T, true> pair(rows, depth);
            for (std::size_t r = 0; r < rows; ++r)
              for (std::size_t c = 0; c < depth; ++c) pair.first()(r, c) = a(r, c), pair.second()(r, c) = b(r, c);
            const left_operand<T> first{pair.first().data(), pair.first().strip_stride(), pair.run, false};
            const left_operand<T> second{pair.second().data(), pair.second().strip_stride(), pair.run, false};
            const test::stored<T> right(u, depth, cols, {layout::rows, transposed}),
                other(v, depth, cols, {layout::rows, transposed != mixed});
            kernel<T> k(rows, cols);
            k.add({{first, right.right(), depth}, {second, other.right(), depth}});
            k.run();
            cases(k.clean(), rows, cols, depth, transposed, mixed);
          }
  CHECK(cases);
}

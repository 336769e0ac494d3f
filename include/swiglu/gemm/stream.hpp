// SPDX-License-Identifier: MIT
#pragma once

// Products of few rows, where reading the right operand is most of the work. It is read once, from the row-major memory
// where it is, in long runs along its rows; what waits in the cache are the results. Every element is summed in
// ascending k, as in the micro-kernel: the two ways agree to the last bit.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <span>

#include <swiglu/gemm/blocking.hpp>
#include <swiglu/gemm/epilogue.hpp>
#include <swiglu/gemm/micro_kernel.hpp>
#include <swiglu/gemm/operand.hpp>
#include <swiglu/gemm/pack.hpp>
#include <swiglu/gemm/prefetch.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

namespace impl {

/// The operands of one product as a kernel reads them.
template <real T>
struct stream_term {
  const T *left, *right;
  std::size_t pitch;
};

/// tile [Rows, cols] += left right. left: [depth][Rows], consecutive. right: row-major [depth, cols], or, `transposed`,
/// [cols, depth]. The tile's columns are padded to whole registers.
template <real T, std::size_t Rows>
struct stream_kernel {
  using V = pack<T>;
  static constexpr std::size_t size = V::size;
  /// Rows of the right operand that are read side by side: streams that the hardware follows, between one look at the
  /// tile and the next.
  static constexpr std::size_t steps = 8;
  /// Registers of a row that share a broadcast: as many as leave half of the registers.
  static constexpr std::size_t vectors = std::clamp<std::size_t>(vector_registers / 2 / Rows, 1, 4);

  [[gnu::noinline]] static void run(const T* left, const T* right, std::size_t pitch, std::size_t depth,
                                    std::size_t cols, T* tile, std::size_t tile_pitch) {
    std::size_t c = 0;
    for (; c + vectors * size <= cols; c += vectors * size)
      run_registers<vectors>(left, right + c, pitch, depth, size, tile + c, tile_pitch);
    for (; c < cols; c += size) run_registers<1>(left, right + c, pitch, depth, cols - c, tile + c, tile_pitch);
  }

  /// The sum of `parts` such products, whose depth is taken from each in turn, a register's worth at a time.
  [[gnu::noinline]] static void run_transposed(const stream_term<T>* term, std::size_t parts, std::size_t depth,
                                               std::size_t cols, T* tile, std::size_t tile_pitch) {
    alignas(alignment) T square[size * size];
    for (std::size_t c = 0; c < cols; c += size) {
      V sum[Rows][1];
      move<1, true>(sum, tile + c, tile_pitch);
      for (std::size_t k = 0; k < depth; k += size)
        for (std::size_t part = 0; part < parts; ++part) {
          const auto& [left, right, pitch] = term[part];
          const std::size_t n = std::min(size, depth - k);
          pack_transposed(right + c * pitch + k, pitch, n, std::min(size, cols - c), square, size);
          for (std::size_t i = 0; i < n; ++i) {
            const V row[1] = {V::load(square + i * size)};
            multiply<1>(left + (k + i) * Rows, row, sum);
          }
        }
      move<1, false>(sum, tile + c, tile_pitch);
    }
  }

 private:
  /// `n`: columns of the last register.
  template <std::size_t Vectors>
  [[gnu::always_inline]] static void run_registers(const T* left, const T* right, std::size_t pitch, std::size_t depth,
                                                   std::size_t n, T* tile, std::size_t tile_pitch) {
    V sum[Rows][Vectors];
    move<Vectors, true>(sum, tile, tile_pitch);
    const std::size_t ahead = steps * pitch;
    for (std::size_t k = 0; k < depth; ++k, left += Rows, right += pitch) {
      V row[Vectors];
      each_register<1, Vectors>([&]<std::size_t, std::size_t C>() __attribute__((always_inline)) {
        prefetch<access::read>(right + ahead + C * size);
        row[C] = Vectors > 1 || n >= size ? V::load(right + C * size) : V::load_partial(right + C * size, n);
      });
      multiply<Vectors>(left, row, sum);
    }
    move<Vectors, false>(sum, tile, tile_pitch);
  }
  template <std::size_t Vectors>
  [[gnu::always_inline]] static void multiply(const T* left, const V (&row)[Vectors], V (&sum)[Rows][Vectors]) {
    V x;
    each_register<Rows, Vectors>([&]<std::size_t R, std::size_t C>() __attribute__((always_inline)) {
      if constexpr (C == 0) x = V(left[R]);
      sum[R][C] = fma(x, row[C], sum[R][C]);
    });
  }
  template <std::size_t Vectors, bool Load>
  [[gnu::always_inline]] static void move(V (&sum)[Rows][Vectors], T* tile, std::size_t pitch) {
    each_register<Rows, Vectors>([&]<std::size_t R, std::size_t C>() __attribute__((always_inline)) {
      if constexpr (Load)
        sum[R][C] = V::load(tile + R * pitch + C * size);
      else
        sum[R][C].store(tile + R * pitch + C * size);
    });
  }
};

}  // namespace impl

/// A contraction of few rows whose right operands are row-major. Construction allocates nothing.
template <real T>
class stream_plan {
  static constexpr std::size_t size = pack<T>::size, strip = 4 * size;
  static constexpr std::size_t group_rows = 8;  // rows that a kernel computes at once

 public:
  /// Rows up to which this is the faster way; transposed operands are turned in registers for each eight rows anew.
  static constexpr std::size_t most_rows = 32, most_rows_transposed = group_rows;

  explicit stream_plan(const contraction<T>& c, cache_sizes cache = default_caches) : c_(c) {
    for (std::size_t g = 0; g < c_.groups; ++g)
      for (std::size_t i = 0; i < c_.terms[g].size(); ++i) {
        const product_term<T>& t = c_.terms[g][i];
        possible_ = possible_ && t.right.run == 0 && !t.right.interleaved() && !t.left.transposed;
        if (t.right.transposed) most_ = most_rows_transposed;
        depth_ = std::max(depth_, terms_together(c_.terms[g], i) * t.depth);
      }
    tile_ = std::max(cache.l1 / sizeof(T) / strip, most_rows) * strip;
  }

  /// Whether the operands allow it, and whether the rows are few enough, too.
  bool possible() const { return possible_; }
  bool fits() const { return possible_ && c_.rows > 0 && c_.rows <= most_; }
  /// Elements of scratch memory that each thread needs, 64-byte aligned; never less for more rows, even too many.
  std::size_t scratch() const {
    return round_up(std::min(padded(c_.rows), most_) * depth_, alignment / sizeof(T)) + c_.groups * tile_;
  }
  /// The unit in which the work is divided among threads.
  std::size_t strips() const { return ceil_div(c_.cols, strip); }

  /// Computes strips first .. last - 1. Parts of one plan may run concurrently, each with scratch memory of its own.
  void run(std::size_t first, std::size_t last, epilogue_ref<T> epilogue, T* scratch) const {
    T* const left = scratch + c_.groups * tile_;
    const std::size_t rows = padded(c_.rows), end = std::min(c_.cols, last * strip);
    const std::size_t width = tile_ / rows / strip * strip;
    for (std::size_t col = first * strip; col < end; col += width) {
      product_tile<T> tile{0, c_.rows, col, std::min(width, end - col), {}, {}};
      for (std::size_t g = 0; g < c_.groups; ++g) {
        T* const sums = scratch + g * tile_;
        tile.group[g] = sums, tile.pitch[g] = width;
        std::fill_n(sums, rows * width, T(0));
        const auto terms = c_.terms[g];
        for (std::size_t i = 0, n = 0; i < terms.size(); i += n) {
          n = terms_together(terms, i);
          if (terms[i].depth > 0) add(terms.subspan(i, n), rows, left, col, tile.cols, sums, width);
        }
      }
      epilogue(tile);
    }
  }

 private:
  using terms_of_group = std::span<const product_term<T>>;
  /// Rows as the kernels compute them: whole groups, and a last one of 1, 2, 4 or 8.
  static constexpr std::size_t padded(std::size_t rows) {
    return rows / group_rows * group_rows + (rows % group_rows == 0 ? 0 : std::bit_ceil(rows % group_rows));
  }
  /// f.operator()<Rows>() for the kernel of so many rows.
  template <class F>
  static void with_kernel_of(std::size_t rows, const F& f) {
    if (rows == 1) return f.template operator()<1>();
    if (rows == 2) return f.template operator()<2>();
    if (rows == 4) return f.template operator()<4>();
    f.template operator()<8>();
  }

  /// sums [rows, cols] += the products of equal depth, of one or of both halves of paired strips.
  void add(terms_of_group terms, std::size_t rows, T* left, std::size_t col, std::size_t cols, T* sums,
           std::size_t width) const {
    const std::size_t depth = terms[0].depth;
    std::array<impl::stream_term<T>, 2> from{};
    bool transposed = true;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const auto right = terms[i].right.at(0, col);
      from[i] = {left + i * rows * depth, right.data, right.pitch};
      copy_left(terms[i], rows, left + i * rows * depth);
      transposed = transposed && terms[i].right.transposed;
    }
    if (transposed)  // at most one group of rows
      return with_kernel_of(rows, [&]<std::size_t Rows>() {
        impl::stream_kernel<T, Rows>::run_transposed(from.data(), terms.size(), depth, cols, sums, width);
      });
    // A few rows of the right operand, for all rows of the left one, before the next few.
    const std::size_t most = terms.size() == 1 ? impl::stream_kernel<T, 1>::steps : size;
    for (std::size_t k = 0; k < depth; k += most)
      for (std::size_t i = 0; i < terms.size(); ++i)
        for (std::size_t r = 0; r < rows; r += group_rows) {
          const std::size_t n = std::min(group_rows, rows - r), step = std::min(most, depth - k);
          const T* const a = from[i].left + r * depth + k * n;
          T* const to = sums + r * width;
          with_kernel_of(n, [&]<std::size_t Rows>() {
            using kernel = impl::stream_kernel<T, Rows>;
            if (terms[i].right.transposed) {
              const impl::stream_term<T> part{a, from[i].right + k, from[i].pitch};
              kernel::run_transposed(&part, 1, step, cols, to, width);
            } else {
              kernel::run(a, from[i].right + k * from[i].pitch, from[i].pitch, step, cols, to, width);
            }
          });
        }
  }

  /// The left operand as [row group][depth][rows]; rows that it has not are 0.
  void copy_left(const product_term<T>& t, std::size_t rows, T* to) const {
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t group = r / group_rows * group_rows, n = std::min(group_rows, rows - group);
      T* const column = to + group * t.depth + (r - group);
      for (std::size_t k = 0; k < t.depth; k += t.left.run) {
        const T* const from = r < c_.rows ? t.left.at(r, k) : nullptr;
        for (std::size_t i = 0; i < std::min(t.left.run, t.depth - k); ++i)
          column[(k + i) * n] = from == nullptr ? T(0) : from[i];
      }
    }
  }

  contraction<T> c_;
  std::size_t depth_ = 0, tile_ = 0, most_ = most_rows;
  bool possible_ = true;
};

}  // namespace SWIGLU_ABI
}  // namespace swiglu

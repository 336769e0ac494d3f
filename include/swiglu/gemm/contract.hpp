// SPDX-License-Identifier: MIT
#pragma once

// The loop nest around the micro-kernel. Products that share their left operands form a bundle and accumulate side by
// side in one strip; a sum of products is one chain of k blocks. For each block of strips:
//
//     for each k block: pack depth x strips of the right operand (unless it is panels already)
//       for each row tile: for each strip: micro-kernel; after the last k block the epilogue
//
// Partial sums wait between k blocks in tiles of their own, in the order in which they are visited.

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include <swiglu/gemm/blocking.hpp>
#include <swiglu/gemm/epilogue.hpp>
#include <swiglu/gemm/kernel_table.hpp>
#include <swiglu/gemm/operand.hpp>
#include <swiglu/gemm/pack.hpp>
#include <swiglu/gemm/prefetch.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

namespace impl {

/// A stretch of depth with one left operand. `parts` = 2: the left operand is a whole paired strip, whose halves are
/// two terms of the sum; their right operands are packed in the same order.
template <real T>
struct segment {
  left_operand<T> left;
  std::size_t term = 0, parts = 1;
  std::size_t depth = 0;  // as the kernel counts it, padding of paired strips included
};

/// Groups with equal left operands, accumulated side by side.
template <real T>
struct bundle {
  std::array<std::size_t, most_vectors> group{};
  std::size_t groups = 0, vectors = 0, vectors_of_group = 0;
  std::size_t right_offset = 0, tile_offset = 0;  // in elements of the scratch memory
};

}  // namespace impl

/// A contraction prepared to run: cut into bundles and blocks. Construction allocates nothing.
template <real T>
class contraction_plan {
 public:
  /// `parts`: into how many parts of equal size the strips will be divided.
  contraction_plan(const contraction<T>& c, kernel_selector<T> kernels, std::size_t parts = 1,
                   cache_sizes cache = default_caches)
      : c_(c), kernels_(kernels), cache_(cache) {
    for (std::size_t g = 0; g < c_.groups; ++g) add(g);
    bool single = true;
    for (std::size_t b = 0; b < bundles_; ++b) single = single && bundle_[b].groups == 1;
    std::size_t widest = 1;
    for (std::size_t b = 0; b < bundles_; ++b) {
      auto& with = bundle_[b];
      with.vectors_of_group = single ? 2 : 1;
      with.vectors = with.groups * with.vectors_of_group;
      widest = std::max(widest, with.vectors);
      for (const auto& t : c_.terms[with.group[0]]) {
        depth_ = std::max(depth_, t.depth * (t.left.run < strip_columns<T> ? 2 : 1));
        terms_ = std::max(terms_, c_.terms[with.group[0]].size());
        if (t.left.transposed) row_run_ = std::min(row_run_, t.left.run);
      }
    }
    strip_cols_ = (single ? 2 : 1) * pack<T>::size;
    strips_ = ceil_div(c_.cols, strip_cols_);
    most_rows_ = tile_rows(widest);
    // Finished tiles pass through L1; only partial sums, or tiles that wait for another bundle, need room for all.
    const bool one_pass = bundles_ == 1 && terms_ == 1 && depth_ <= most_depth<T>(widest, cache);
    const std::size_t part = ceil_div(strips_, parts), rows = std::max<std::size_t>(c_.rows, 1);
    blocking_ = choose_blocking<T>(depth_, part, widest, !one_pass, cache);
    blocking_.row_block = std::min(blocking_.row_block, round_up(rows, most_rows_));
    const std::size_t tiles =
        one_pass ? most_rows_ : (blocking_.row_block + most_rows_) * std::min(part, most_kept_strips);
    for (std::size_t b = 0; b < bundles_; ++b) {
      const std::size_t width = bundle_[b].vectors * pack<T>::size;
      bundle_[b].right_offset = scratch_;
      scratch_ += right_block_bound<T>(depth_, part, widest, cache) * width;
      bundle_[b].tile_offset = scratch_;
      scratch_ += tiles * width;
    }
    scratch_ = round_up(scratch_, alignment / sizeof(T));
    far_ = c_.rows * c_.cols * sizeof(T) > cache_.l2 / 2;
  }

  /// Elements of scratch memory that each thread needs, 64-byte aligned; grows with every extent.
  std::size_t scratch() const { return scratch_; }
  /// Strips of columns: the unit in which the work is divided among threads.
  std::size_t strips() const { return strips_; }

  /// Computes strips first .. last - 1 and calls the epilogue once for every tile of them. Parts of one plan may run
  /// concurrently, each with scratch memory of its own; how the strips are divided changes no bit.
  void run(std::size_t first, std::size_t last, epilogue_ref<T> epilogue, T* scratch) const {
    for (std::size_t j = first; j < last; j += blocking_.strips)
      for (std::size_t i = 0; i < c_.rows; i += blocking_.row_block)
        for (std::size_t b = 0; b < bundles_; ++b)
          run_bundle(bundle_[b],
                     {i, std::min(c_.rows, i + blocking_.row_block), j, std::min(last, j + blocking_.strips)},
                     b + 1 == bundles_ ? &epilogue : nullptr, scratch);
  }

 private:
  using bundle = impl::bundle<T>;
  using segment = impl::segment<T>;
  struct block {
    std::size_t row, row_end, strip, strip_end;
  };

  void add(std::size_t g) {
    for (std::size_t b = 0; b < bundles_; ++b) {
      bundle& with = bundle_[b];
      if (with.groups < most_vectors && same_left(with.group[0], g)) {
        with.group[with.groups++] = g;
        return;
      }
    }
    bundle_[bundles_].group[0] = g;
    bundle_[bundles_++].groups = 1;
  }
  bool same_left(std::size_t g, std::size_t h) const {
    const auto equal = [](const product_term<T>& a, const product_term<T>& b) {
      return a.left == b.left && a.depth == b.depth;
    };
    return std::equal(c_.terms[g].begin(), c_.terms[g].end(), c_.terms[h].begin(), c_.terms[h].end(), equal);
  }

  /// The segment that starts with term t.
  segment segment_at(const bundle& b, std::size_t t) const {
    const auto terms = c_.terms[b.group[0]];
    const std::size_t size = pack<T>::size;
    if (terms_together(terms, t) == 2) {
      left_operand<T> whole = terms[t].left;
      whole.run = strip_columns<T>;
      return {whole, t, 2, ceil_div(terms[t].depth, size) * strip_columns<T>};
    }
    return {terms[t].left, t, 1, terms[t].depth};
  }

  /// Whether the kernel can read the right operands where they are: not transposed, rows equally far apart, and either
  /// panels or not worth packing.
  bool direct_right(const bundle& b, const segment& s) const {
    if (s.parts != 1) return false;
    const right_operand<T>& first = c_.terms[b.group[0]][s.term].right;
    for (std::size_t g = 0; g < b.groups; ++g) {
      const right_operand<T>& right = c_.terms[b.group[g]][s.term].right;
      if (right.transposed || right.interleaved() || (right.run == 0) != (first.run == 0)) return false;
      if (right.run == 0 && right.pitch != first.pitch) return false;
    }
    return first.run != 0 || !worth_packing<T>(c_.rows, s.depth, c_.cols, first.pitch, cache_);
  }

  /// Packs row-major right operands row by row, across the strips: a row of the block is a stretch of memory that the
  /// hardware prefetches and that lies on one page.
  bool pack_rows_across(const bundle& b, const segment& s, std::size_t k, std::size_t depth, const block& at,
                        T* to) const {
    if (s.parts != 1 || at.strip_end * strip_cols_ > c_.cols) return false;
    for (std::size_t g = 0; g < b.groups; ++g) {
      const right_operand<T>& right = c_.terms[b.group[g]][s.term].right;
      if (right.transposed || right.interleaved() || right.run != 0) return false;
    }
    constexpr std::size_t size = pack<T>::size, rows_ahead = 32;
    const std::size_t width = b.vectors * size;
    for (std::size_t g = 0; g < b.groups; ++g) {
      const auto from = c_.terms[b.group[g]][s.term].right.at(k, at.strip * strip_cols_);
      T* const column = to + g * b.vectors_of_group * size;
      for (std::size_t i = 0; i < depth; ++i) {
        const T *row = from.data + i * from.pitch, *ahead = row + rows_ahead * from.pitch;
        T* out = column + i * width;
        for (std::size_t j = at.strip; j < at.strip_end; ++j, out += depth * width)
          for (std::size_t v = 0; v < b.vectors_of_group; ++v, row += size, ahead += size) {
            prefetch<access::read>(ahead);
            pack<T>::load(row).store(out + v * size);
          }
      }
    }
    return true;
  }

  void pack_right(const bundle& b, const segment& s, std::size_t k, std::size_t depth, const block& at, T* to) const {
    constexpr std::size_t size = pack<T>::size;
    const std::size_t width = b.vectors * size;
    if (pack_rows_across(b, s, k, depth, at, to)) return;
    for (std::size_t j = at.strip; j < at.strip_end; ++j, to += depth * width)
      for (std::size_t g = 0; g < b.groups; ++g)
        for (std::size_t v = 0; v < b.vectors_of_group; ++v) {
          T* column = to + (g * b.vectors_of_group + v) * size;
          const std::size_t col = j * strip_cols_ + v * size;
          const auto terms = c_.terms[b.group[g]].subspan(s.term);
          if (s.parts == 1) {
            pack_register_column(terms[0].right, k, depth, col, c_.cols, column, width);
            continue;
          }
          // Rows alternate between the two terms, one register's worth at a time, as the left operand's columns do.
          for (std::size_t i = 0; i < depth; i += 2 * size)
            for (std::size_t part = 0; part < 2; ++part) {
              const std::size_t from = (k + i) / 2, rows = std::min(size, terms[part].depth - from);
              T* row = column + (i + part * size) * width;
              pack_register_column(terms[part].right, from, rows, col, c_.cols, row, width);
              for (std::size_t r = rows; r < size; ++r) pack<T>(T(0)).store(row + r * width);
            }
        }
  }

  void run_bundle(const bundle& b, const block& at, const epilogue_ref<T>* epilogue, T* scratch) const {
    const auto terms = c_.terms[b.group[0]];
    bool accumulate = false;
    for (std::size_t t = 0; t < terms.size();) {
      const segment s = segment_at(b, t);
      t += s.parts;
      std::size_t k = 0;
      do {  // at least once: a product of depth 0 is 0
        const std::size_t depth = std::min(blocking_.depth, s.depth - k);
        const bool last = t == terms.size() && k + depth == s.depth;
        run_k_block(b, s, k, depth, at, accumulate, last ? epilogue : nullptr, scratch);
        accumulate = true;
        k += depth;
      } while (k < s.depth);
    }
  }

  void run_k_block(const bundle& b, const segment& s, std::size_t k, std::size_t depth, const block& at,
                   bool accumulate, const epilogue_ref<T>* epilogue, T* scratch) const {
    constexpr std::size_t size = pack<T>::size;
    const std::size_t width = b.vectors * size;
    block packed = at;  // the strips that are copied: none, all, or the last one if it ends in the middle of a register
    if (direct_right(b, s)) {
      const std::size_t run = c_.terms[b.group[0]][s.term].right.run;
      const bool whole = at.strip_end * strip_cols_ <= round_up(c_.cols, run == 0 ? 1 : run);
      packed.strip = whole ? at.strip_end : at.strip_end - 1;
    }
    T* const right = scratch + b.right_offset;
    prefetch_list ahead(depth < short_depth);
    if (packed.strip < packed.strip_end) pack_right(b, s, k, depth, packed, right);

    // A tile that is finished at once needs no memory of its own: every strip then uses the first one.
    const bool keep = accumulate || epilogue == nullptr || bundles_ > 1;
    const std::size_t tile_step = keep ? width : 0;
    kernel_operands<T> o{nullptr, s.left.strip_stride, s.left.run, {}, 0, depth, nullptr, accumulate, nullptr, 0};
    std::size_t rows = 0;
    for (std::size_t row = at.row; row < at.row_end; row += rows) {
      rows = next_tile(most_rows_, rows_left(row, at.row_end));
      const std::size_t next = row + rows;
      const kernel_function<T> kernel = kernels_(rows, b.vectors, s.left.transposed);
      o.left = s.left.at(row, k);
      for (std::size_t j = at.strip; j < at.strip_end; ++j) {
        const std::size_t nth = j - at.strip;
        o.tile = scratch + b.tile_offset + ((row - at.row) * (at.strip_end - at.strip) + nth * rows) * tile_step;
        for (std::size_t v = 0; v < b.vectors; ++v) {
          if (j >= packed.strip) {
            o.right[v] = right + (j - packed.strip) * depth * width + v * size;
            o.right_pitch = width;
          } else {
            const std::size_t column = j * strip_cols_ + v % b.vectors_of_group * size;
            const auto from = c_.terms[b.group[v / b.vectors_of_group]][s.term].right.at(k, column);
            o.right[v] = from.data;
            o.right_pitch = from.pitch;
          }
        }
        const product_tile<T> tile = finished(row, rows, j, at, scratch, keep);
        ahead.clear();
        if (epilogue != nullptr && far_) epilogue->prefetch(tile, ahead);
        if (accumulate) prefetch_tile(o.tile + rows * width, rows * width, ahead);
        if (next < at.row_end) prefetch_left(s, next, at.row_end, k, depth, nth, at.strip_end - at.strip, ahead);
        o.ahead = ahead.begin(), o.lines_ahead = ahead.size();
        kernel(o);
        if (epilogue != nullptr) (*epilogue)(tile);
      }
    }
  }

  std::size_t rows_left(std::size_t row, std::size_t end) const {
    return std::min(end - row, row_run_ == no_run ? end - row : row_run_ - row % row_run_);
  }

  /// The tile of every bundle at (row, strip).
  product_tile<T> finished(std::size_t row, std::size_t rows, std::size_t strip, const block& at, const T* scratch,
                           bool keep) const {
    product_tile<T> tile{row, rows, strip * strip_cols_, std::min(strip_cols_, c_.cols - strip * strip_cols_), {}, {}};
    for (std::size_t i = 0; i < bundles_; ++i) {
      const bundle& b = bundle_[i];
      const std::size_t width = b.vectors * pack<T>::size;
      const std::size_t offset = (row - at.row) * (at.strip_end - at.strip) + (strip - at.strip) * rows;
      const T* data = scratch + b.tile_offset + (keep ? offset * width : 0);
      for (std::size_t g = 0; g < b.groups; ++g) {
        tile.group[b.group[g]] = data + g * b.vectors_of_group * pack<T>::size;
        tile.pitch[b.group[g]] = width;
      }
    }
    return tile;
  }

  /// Asks for share `nth` of `of` of the row tile of the left operand that starts at `row`. The tile is asked for while
  /// the one before it is computed: each jump to the next strip of panels, or to the next columns of a transposed
  /// operand, is an address that no hardware prefetcher foresees.
  void prefetch_left(const segment& s, std::size_t row, std::size_t end, std::size_t k, std::size_t depth,
                     std::size_t nth, std::size_t of, prefetch_list& ahead) const {
    constexpr std::size_t line = alignment / sizeof(T);
    const std::size_t rows = next_tile(most_rows_, rows_left(row, end));
    const auto share = [&](std::size_t n, std::size_t i) { return n * i / of; };
    if (s.left.transposed) {
      // Lines of a strip's row that the tile before has not touched already.
      const std::size_t first = row % s.left.run, next = first == 0 ? 0 : round_up(first, line);
      for (std::size_t c = next; c < first + rows; c += line)
        for (std::size_t i = share(depth, nth); i < share(depth, nth + 1); ++i)
          ahead.add(s.left.at(row - first + c, k + i));
      return;
    }
    const std::size_t strips = ceil_div(depth, s.left.run);
    for (std::size_t i = share(strips, nth); i < share(strips, nth + 1); ++i) {
      const T* from = s.left.at(row, k + i * s.left.run);
      for (std::size_t e = 0; e < rows * strip_columns<T>; e += line) ahead.add(from + e);
    }
  }

  /// The partial sums of the next tile.
  static void prefetch_tile(const T* tile, std::size_t n, prefetch_list& ahead) {
    for (std::size_t e = 0; e < n; e += alignment / sizeof(T)) ahead.add(tile + e);
  }

  static constexpr std::size_t no_run = dynamic;
  static constexpr std::size_t short_depth = 128;
  contraction<T> c_;
  kernel_selector<T> kernels_;
  cache_sizes cache_;
  std::array<bundle, most_groups> bundle_{};
  std::size_t bundles_ = 0, terms_ = 0, depth_ = 0, strips_ = 0, strip_cols_ = 0, most_rows_ = 0, row_run_ = no_run,
              scratch_ = 0;
  blocking blocking_{};
  bool far_ = false;  // the destination is too large to wait in L2
};

}  // namespace SWIGLU_ABI
}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// tensor owns row-major memory, view borrows it. Both have extents that are static or dynamic; a view has a row pitch.
// Neither depends on the instruction set. To the kernels both are matrices: the leading extents collapsed into rows.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include <swiglu/buffer.hpp>
#include <swiglu/shape.hpp>

namespace swiglu {

/// Element types of the library.
template <class T>
concept real = std::same_as<T, float> || std::same_as<T, double>;

/// Anything that offers std::mdspan's interface with elements T: std::mdspan itself where the standard library has it,
/// or a stand-in such as the reference implementation.
template <class M, class T>
concept mdspan_like = requires(const M& m, std::size_t i) {
  { m.data_handle() } -> std::convertible_to<T*>;
  { m.extent(i) } -> std::convertible_to<std::size_t>;
  { m.stride(i) } -> std::convertible_to<std::size_t>;
  { M::rank() } -> std::convertible_to<std::size_t>;
};

/// Borrowed row-major memory of `E...` elements; rows (all extents but the last, collapsed) lie `pitch` elements apart.
/// Shallow constness, like std::span: view<const T, ...> is the read-only one. Copying a view copies no element.
template <class T, std::size_t... E>
class view {
  static_assert(real<std::remove_const_t<T>>, "swiglu: elements are float or double");

 public:
  using element_type = T;
  using value_type = std::remove_const_t<T>;
  using extents_type = extents<E...>;
  static constexpr std::size_t rank = extents_type::rank;
  static constexpr std::size_t static_rows = extents_type::static_rows();
  static constexpr std::size_t static_cols = extents_type::static_cols();

  constexpr view() = default;
  /// Contiguous rows. `shape` is made from the dynamic extents: view<const float, dynamic, 64> x{p, {tokens}}.
  constexpr view(T* data, extents_type shape) : view(data, shape, shape.cols()) {}
  constexpr explicit view(T* data) requires extents_type::is_static : view(data, extents_type{}) {}
  /// All elements of a span, a std::vector or a std::array, contiguous. Throws shape_error unless there are as many as
  /// the shape counts.
  constexpr view(std::span<T> elements, extents_type shape) : view(elements.data(), shape) {
    check_extent("view: elements of the span", shape.count(), elements.size());
  }
  /// Rows `pitch` elements apart; pitch >= the last extent (shape_error otherwise).
  constexpr view(T* data, extents_type shape, std::size_t pitch) : data_(data), pitch_(pitch), shape_(shape) {
    if (pitch < shape.cols()) throw shape_error("view: row pitch is below the columns", shape.cols(), pitch);
  }
  /// A view of the same elements with more or fewer extents static, or read-only. Throws shape_error on a mismatch.
  template <class U, std::size_t... F>
    requires(std::convertible_to<U (*)[], T (*)[]>&& std::constructible_from<extents_type, extents<F...>> &&
             !std::same_as<view<U, F...>, view>)
  constexpr view(view<U, F...> v) : data_(v.data()), pitch_(v.pitch()), shape_(v.shape()) {}  // NOLINT: a conversion
  /// From std::mdspan or a look-alike whose last stride is 1 and whose leading extents are contiguous among themselves.
  template <mdspan_like<T> M>
    requires(M::rank() == rank)
  static constexpr view from_mdspan(const M& m) {
    std::size_t given[rank] = {};
    for (std::size_t i = 0; i < rank; ++i) given[i] = static_cast<std::size_t>(m.extent(i));
    const auto shape = [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
      return extents<(static_cast<void>(Nth), dynamic)...>{given[Nth]...};
    }
    (std::make_index_sequence<rank>{});
    if (given[rank - 1] > 1) check_extent("from_mdspan: last stride", 1, static_cast<std::size_t>(m.stride(rank - 1)));
    std::size_t pitch = given[rank - 1];
    if constexpr (rank >= 2) {
      if (shape.rows() > 1) {
        // The innermost leading extent above 1 sets the row pitch; every outer one has to continue it.
        std::size_t inner = 0;
        for (std::size_t i = rank - 1; i-- > 0;) {
          if (given[i] == 1) continue;
          const auto stride = static_cast<std::size_t>(m.stride(i));
          if (inner == 0) pitch = stride, inner = 1;
          check_extent("from_mdspan: stride of a leading extent", pitch * inner, stride);
          inner *= given[i];
        }
      }
    }
    return view(m.data_handle(), shape, pitch);
  }
  /// To std::mdspan or a look-alike with a strided mapping (layout_stride).
  template <class M>
  constexpr M to_mdspan() const {
    std::array<std::size_t, rank> e{}, s{};
    std::size_t stride = pitch_;
    for (std::size_t i = rank; i-- > 0;) {
      e[i] = shape_.extent(i);
      s[i] = i + 1 == rank ? 1 : stride;
      if (i + 1 != rank) stride *= e[i];
    }
    return M(data_, typename M::mapping_type(typename M::extents_type(e), s));
  }

  constexpr T* data() const { return data_; }
  constexpr std::size_t pitch() const { return pitch_; }
  constexpr const extents_type& shape() const { return shape_; }
  constexpr std::size_t extent(std::size_t i) const { return shape_.extent(i); }
  constexpr std::size_t rows() const { return shape_.rows(); }
  constexpr std::size_t cols() const { return shape_.cols(); }

  /// One index for each extent; not checked.
  template <class... Nth>
    requires(sizeof...(Nth) == sizeof...(E))
  constexpr T& operator()(Nth... index) const {
    const std::array<std::size_t, rank> at{static_cast<std::size_t>(index)...};
    std::size_t row = 0;
    for (std::size_t i = 0; i + 1 < rank; ++i) row = row * shape_.extent(i) + at[i];
    return data_[row * pitch_ + at[rank - 1]];
  }

  /// Rows first .. first + count - 1, as a matrix. Throws shape_error past the end.
  constexpr view<T, dynamic, static_cols> row_block(std::size_t first, std::size_t count) const {
    if (first > rows() || count > rows() - first) throw shape_error("row_block: end", rows(), first + count);
    return {from(first * pitch_), extents<dynamic, dynamic>{count, cols()}, pitch_};
  }
  /// Columns first .. first + count - 1, as a matrix of the same pitch. Throws shape_error past the end.
  constexpr view<T, static_rows, dynamic> column_block(std::size_t first, std::size_t count) const {
    if (first > cols() || count > cols() - first) throw shape_error("column_block: end", cols(), first + count);
    return {from(first), extents<dynamic, dynamic>{rows(), count}, pitch_};
  }

 private:
  /// The address of an element, which a view without elements, or of shapes only, need not have.
  constexpr T* from(std::size_t offset) const {
    return rows() == 0 || cols() == 0 || data_ == nullptr ? data_ : data_ + offset;
  }

  T* data_ = nullptr;
  std::size_t pitch_ = extents_type{}.cols();
  [[no_unique_address]] extents_type shape_{};
};

/// Owned row-major memory of `E...` elements: 64-byte aligned, contiguous, zero-initialised. Copies are deep.
template <real T, std::size_t... E>
class tensor {
 public:
  using element_type = T;
  using value_type = T;
  using extents_type = extents<E...>;
  static constexpr std::size_t rank = extents_type::rank;
  static constexpr std::size_t static_rows = extents_type::static_rows();
  static constexpr std::size_t static_cols = extents_type::static_cols();

  /// Static extents only; a tensor with dynamic extents is empty.
  tensor() : tensor(extents_type{}) {}
  explicit tensor(extents_type shape) : shape_(shape), memory_(shape.count()) {}
  /// One argument for each dynamic extent: tensor<float, dynamic, 64> x{tokens}.
  template <class... N>
    requires(sizeof...(N) == extents_type::dynamic_rank && sizeof...(N) > 0 &&
             (std::convertible_to<N, std::size_t> && ...))
  explicit tensor(N... n) : tensor(extents_type{n...}) {}

  tensor(const tensor& other) : tensor(other.shape_) { std::copy_n(other.data(), size(), data()); }
  tensor(tensor&& other) noexcept : shape_(std::exchange(other.shape_, {})), memory_(std::move(other.memory_)) {}
  tensor& operator=(const tensor& other) { return *this = tensor(other); }
  tensor& operator=(tensor&& other) noexcept {
    shape_ = std::exchange(other.shape_, {});
    memory_ = std::move(other.memory_);
    return *this;
  }
  ~tensor() = default;

  T* data() { return memory_.data(); }
  const T* data() const { return memory_.data(); }
  std::size_t size() const { return shape_.count(); }
  const extents_type& shape() const { return shape_; }
  std::size_t extent(std::size_t i) const { return shape_.extent(i); }
  std::size_t rows() const { return shape_.rows(); }
  std::size_t cols() const { return shape_.cols(); }
  std::size_t pitch() const { return cols(); }
  std::span<T> span() { return {data(), size()}; }
  std::span<const T> span() const { return {data(), size()}; }

  swiglu::view<T, E...> view() { return {data(), shape_}; }
  swiglu::view<const T, E...> view() const { return {data(), shape_}; }
  operator swiglu::view<T, E...>() & { return view(); }
  operator swiglu::view<const T, E...>() const& { return view(); }
  /// A read-only view, or one with more extents static or dynamic.
  template <class U, std::size_t... F>
    requires(std::constructible_from<swiglu::view<U, F...>, swiglu::view<T, E...>> &&
             !(std::same_as<U, T> && std::same_as<extents<F...>, extents_type>))
  operator swiglu::view<U, F...>() & { return swiglu::view<U, F...>(view()); }
  template <class U, std::size_t... F>
    requires(std::constructible_from<swiglu::view<U, F...>, swiglu::view<const T, E...>> &&
             !(std::same_as<U, const T> && std::same_as<extents<F...>, extents_type>))
  operator swiglu::view<U, F...>() const& { return swiglu::view<U, F...>(view()); }

  template <class... Nth>
    requires(sizeof...(Nth) == sizeof...(E))
  T& operator()(Nth... index) { return view()(index...); }
  template <class... Nth>
    requires(sizeof...(Nth) == sizeof...(E))
  const T& operator()(Nth... index) const { return view()(index...); }

 private:
  extents_type shape_;
  buffer<T> memory_;
};

namespace detail {
template <class X>
inline constexpr bool is_view = false;
template <class T, std::size_t... E>
inline constexpr bool is_view<view<T, E...>> = true;
template <class X>
inline constexpr bool is_tensor = false;
template <class T, std::size_t... E>
inline constexpr bool is_tensor<tensor<T, E...>> = true;
}  // namespace detail

}  // namespace swiglu

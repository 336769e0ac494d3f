// SPDX-License-Identifier: MIT
#pragma once

// Views of tensors that PyTorch, JAX, NumPy and others hand over as DLPack structs. The structs are recognised by the
// names of their members, so that no dlpack.h is needed and any copy of it will do, nanobind's included. Not part of
// mlp.hpp: include it by name.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <swiglu/tensor.hpp>

namespace swiglu {

/// A DLTensor: data, device, dtype, shape and strides, owned by somebody else.
template <class D>
concept dlpack_tensor = requires(const D& d) {
  { d.data } -> std::convertible_to<const void*>;
  {d.device.device_type};
  { d.ndim } -> std::convertible_to<std::int64_t>;
  { d.dtype.code } -> std::convertible_to<std::int64_t>;
  { d.dtype.bits } -> std::convertible_to<std::int64_t>;
  { d.dtype.lanes } -> std::convertible_to<std::int64_t>;
  { d.shape } -> std::convertible_to<const std::int64_t*>;
  { d.strides } -> std::convertible_to<const std::int64_t*>;
  { d.byte_offset } -> std::convertible_to<std::uint64_t>;
};

/// A DLManagedTensor, which does not say whether it may be written to.
template <class D>
concept dlpack_managed = requires(const D& d) {
  { d.dl_tensor } -> dlpack_tensor;
};

/// A DLManagedTensorVersioned.
template <class D>
concept dlpack_versioned = dlpack_managed<D> && requires(const D& d) {
  {d.version};
  { d.flags } -> std::convertible_to<std::uint64_t>;
};

namespace dlpack_detail {

// Numbers of DLPack's enumerations.
inline constexpr std::int64_t version_read = 1, cpu = 1, float_code = 2;
inline constexpr std::uint64_t read_only = 1;

[[noreturn]] inline void refuse(std::string_view what, const std::string& expected, const std::string& actual) {
  throw std::invalid_argument("swiglu: from_dlpack: " + std::string(what) + ": expected " + expected + ", got " +
                              actual);
}
inline void check(std::string_view what, std::int64_t expected, std::int64_t actual) {
  if (expected != actual) refuse(what, std::to_string(expected), std::to_string(actual));
}

inline std::string type_name(std::int64_t code, std::int64_t bits) {
  static constexpr std::array<std::string_view, 7> kinds{"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const bool known = code >= 0 && static_cast<std::size_t>(code) < kinds.size();
  return (known ? std::string(kinds[static_cast<std::size_t>(code)]) : "type " + std::to_string(code) + ", bits ") +
         std::to_string(bits);
}

/// What a view needs to know: extents, and the distance of rows in elements.
template <std::size_t Rank>
struct layout {
  std::array<std::size_t, Rank> extent{};
  std::size_t pitch = 0;
};

/// Leading extents are collapsed as far as `Rank` demands, which needs them contiguous among themselves.
template <std::size_t Rank>
layout<Rank> layout_of(const std::int64_t* shape, const std::int64_t* strides, std::size_t ndim) {
  const auto axis = [](std::size_t i, const char* what) { return std::string(what) + " " + std::to_string(i); };
  layout<Rank> l;
  l.extent.fill(1);
  bool empty = false;
  for (std::size_t i = 0; i < ndim; ++i) {
    if (shape[i] < 0) refuse(axis(i, "extent"), "at least 0", std::to_string(shape[i]));
    const auto extent = static_cast<std::size_t>(shape[i]);
    std::size_t& to = l.extent[i + Rank < ndim ? 0 : i + Rank - ndim];
    to = checked_product(to, extent);
    empty = empty || extent == 0;
  }
  const std::size_t cols = l.extent[Rank - 1];
  l.pitch = cols;
  if (empty || strides == nullptr) return l;  // without strides the rows are contiguous

  if (cols > 1) check(axis(ndim - 1, "stride"), 1, strides[ndim - 1]);
  // The innermost leading extent above 1 sets the row pitch; every outer one has to continue it.
  std::int64_t next = 0;
  for (std::size_t i = ndim - 1; i-- > 0;) {
    if (shape[i] == 1) continue;
    if (next == 0) {
      if (strides[i] < static_cast<std::int64_t>(cols))
        refuse(axis(i, "stride"), "at least " + std::to_string(cols), std::to_string(strides[i]));
      next = strides[i];
      l.pitch = static_cast<std::size_t>(next);
    }
    check(axis(i, "stride"), next, strides[i]);
    if (next > INT64_MAX / shape[i]) throw std::length_error("swiglu: a shape of too many elements");
    next *= shape[i];
  }
  return l;
}

template <class View, std::size_t Rank, std::size_t... Nth>
View make(typename View::element_type* data, const layout<Rank>& l, std::index_sequence<Nth...>) {
  return view<typename View::element_type, (static_cast<void>(Nth), dynamic)...>(
      data, extents<(static_cast<void>(Nth), dynamic)...>{l.extent[Nth]...}, l.pitch);
}

}  // namespace dlpack_detail

/// The elements of a DLTensor as a `View`, for instance
///
///     const auto x = swiglu::from_dlpack<swiglu::view<const float, swiglu::dynamic, 1024>>(tensor);
///
/// Nothing is copied; the view is valid as long as the tensor's owner keeps it, and the caller calls the deleter. The
/// tensor has the rank of the view; for a matrix it may have more leading extents, which collapse into rows if they are
/// contiguous among themselves. Rows are contiguous, any distance apart, except that rows of stride 0 (a broadcast) and
/// negative strides are refused. Strides may be missing (compact).
///
/// Errors: std::invalid_argument with argument, expected and actual: device, dtype, lanes, rank, extents, strides, a
/// null pointer, an address that is no multiple of the element's size; shape_error (one of these) for a static extent
/// of the view; std::length_error for more bytes than there can be. A DLTensor does not say whether it may be written
/// to: that is in the struct that manages it.
template <class View, dlpack_tensor D>
View from_dlpack(const D& tensor) {
  using element = typename View::element_type;
  using value = typename View::value_type;
  constexpr std::size_t rank = View::rank;
  namespace dl = dlpack_detail;

  dl::check("device type (1 is the CPU)", dl::cpu, static_cast<std::int64_t>(tensor.device.device_type));
  const auto code = static_cast<std::int64_t>(tensor.dtype.code), bits = static_cast<std::int64_t>(tensor.dtype.bits);
  constexpr auto wanted = static_cast<std::int64_t>(8 * sizeof(value));
  if (code != dl::float_code || bits != wanted)
    dl::refuse("dtype", dl::type_name(dl::float_code, wanted), dl::type_name(code, bits));
  dl::check("lanes", 1, static_cast<std::int64_t>(tensor.dtype.lanes));
  const auto ndim = static_cast<std::int64_t>(tensor.ndim);
  if (ndim < static_cast<std::int64_t>(rank) || (rank != 2 && ndim != static_cast<std::int64_t>(rank)))
    dl::refuse("rank", (rank == 2 ? "at least " : "") + std::to_string(rank), std::to_string(ndim));
  const std::int64_t* const shape = tensor.shape;
  if (shape == nullptr) dl::refuse("shape", "extents", "a null pointer");

  const auto l = dl::layout_of<rank>(shape, tensor.strides, static_cast<std::size_t>(ndim));
  element* data = nullptr;
  std::size_t bytes_spanned = checked_product(l.pitch, sizeof(value));
  for (std::size_t i = 0; i + 1 < rank; ++i) bytes_spanned = checked_product(bytes_spanned, l.extent[i]);
  if (bytes_spanned != 0) {
    if (tensor.data == nullptr) dl::refuse("data", "elements", "a null pointer");
    auto* const bytes = static_cast<std::byte*>(tensor.data) + static_cast<std::uint64_t>(tensor.byte_offset);
    if (const auto past = reinterpret_cast<std::uintptr_t>(bytes) % alignof(value); past != 0)
      dl::refuse("address of the first element", "a multiple of " + std::to_string(alignof(value)),
                 std::to_string(past) + " bytes more");
    data = reinterpret_cast<element*>(bytes);
  }
  return dl::make<View>(data, l, std::make_index_sequence<rank>{});
}

/// The same of a DLManagedTensor. Whoever asks for a writable view answers for it that the tensor may be written to.
template <class View, dlpack_managed D>
  requires(!dlpack_versioned<D>)
View from_dlpack(const D& managed) { return from_dlpack<View>(managed.dl_tensor); }

/// The same of a DLManagedTensorVersioned: of major version 1, since another one may have other members, and not
/// read-only if the view is writable (std::invalid_argument otherwise).
template <class View, dlpack_versioned D>
View from_dlpack(const D& managed) {
  namespace dl = dlpack_detail;
  const auto& [of_struct, of_details] = managed.version;  // by position: `major` is a macro in some system's headers
  static_cast<void>(of_details);
  dl::check("major version of the struct", dl::version_read, static_cast<std::int64_t>(of_struct));
  if (!std::is_const_v<typename View::element_type> && (static_cast<std::uint64_t>(managed.flags) & dl::read_only) != 0)
    dl::refuse("access", "a tensor that may be written to", "a read-only one (view<const T, ...> takes it)");
  return from_dlpack<View>(managed.dl_tensor);
}

}  // namespace swiglu

// SPDX-License-Identifier: MIT
#pragma once

// Moving lanes between packs.

#include <cstddef>
#include <utility>

#include <swiglu/simd.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {
namespace impl {

/// The lower (Half = 0) or upper half of a and b, lane by lane in turn.
template <std::size_t Half, real T, std::size_t... Nth>
[[gnu::always_inline]] inline pack<T> interleave(pack<T> a, pack<T> b, std::index_sequence<Nth...>) {
  constexpr std::size_t n = sizeof...(Nth);
  if constexpr (has_simd) {
    typedef T vector __attribute__((vector_size(n * sizeof(T))));
    return bits<pack<T>>(
        __builtin_shufflevector(bits<vector>(a), bits<vector>(b), (Half * n / 2 + Nth / 2 + (Nth % 2) * n)...));
  } else {
    T from[2 * n], to[n];
    a.store(from), b.store(from + n);
    ((to[Nth] = from[Half * n / 2 + Nth / 2 + (Nth % 2) * n]), ...);
    return pack<T>::load(to);
  }
}

/// Elements 0, 2, 4, ... of p, a register of them: nothing behind the last one is read.
template <real T>
[[gnu::always_inline]] inline pack<T> every_other(const T* p) {
  constexpr std::size_t n = pack<T>::size;
  if constexpr (has_simd) {
    typedef T vector __attribute__((vector_size(n * sizeof(T))));
    return [&]<std::size_t... Nth>(std::index_sequence<Nth...>) __attribute__((always_inline)) {
      // The second register begins one element early, with an odd one.
      return bits<pack<T>>(__builtin_shufflevector(bits<vector>(pack<T>::load(p)), bits<vector>(pack<T>::load(p + n - 1)),
                                                   (2 * Nth < n ? 2 * Nth : 2 * Nth + 1)...));
    }
    (std::make_index_sequence<n>{});
  } else {
    return pack<T>::gather(p, 2, n);
  }
}

}  // namespace impl
}  // namespace SWIGLU_ABI
}  // namespace swiglu

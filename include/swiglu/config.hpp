// SPDX-License-Identifier: MIT
#pragma once

// What every header needs to know about the build: the version of C++, the instruction set's ABI tag, the alignment of
// owned memory, and the one compiler flag that cannot be supported. The only macros of the library live here, in
// simd.hpp's guard and in version.hpp.

#if __cplusplus < 202002L
#error "swiglu: C++20 is needed; build with -std=c++20 or newer (in CMake, link to swiglu::swiglu, which asks for it)"
#endif

#include <cstddef>

#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error \
    "swiglu: -ffinite-math-only (part of -ffast-math) lets the compiler drop NaN and infinity, which silu must honour; build with -fno-finite-math-only"
#endif

// SWIGLU_ABI names the instruction set in every symbol whose code or layout depends on it, so that translation units
// built with different -m flags never share an inline function. Storage types (tensor, view) stay outside of it.
// SWIGLU_SCALAR (set by the user, never by us) builds without any SIMD.
#if defined(SWIGLU_SCALAR)
#define SWIGLU_ABI isa_scalar
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define SWIGLU_ABI isa_avx512
#elif defined(__AVX512F__)
#define SWIGLU_ABI isa_avx512f
#elif defined(__AVX2__) && defined(__FMA__)
#define SWIGLU_ABI isa_avx2_fma
#elif defined(__AVX2__)
#define SWIGLU_ABI isa_avx2
#elif defined(__AVX__) && defined(__FMA__)
#define SWIGLU_ABI isa_avx_fma
#elif defined(__AVX__)
#define SWIGLU_ABI isa_avx
#elif defined(__SSE4_2__)
#define SWIGLU_ABI isa_sse4_2
#elif defined(__SSE4_1__)
#define SWIGLU_ABI isa_sse4_1
#elif defined(__SSE3__)
#define SWIGLU_ABI isa_sse3
#elif defined(__SSE2__)
#define SWIGLU_ABI isa_sse2
#elif defined(__ARM_NEON)
#define SWIGLU_ABI isa_neon
#else
#define SWIGLU_ABI isa_none
#endif

namespace swiglu {

/// Alignment in bytes of all memory that the library owns. The same for every instruction set, so that storage may
/// cross translation units built with different flags.
inline constexpr std::size_t alignment = 64;

}  // namespace swiglu

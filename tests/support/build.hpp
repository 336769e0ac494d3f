// SPDX-License-Identifier: MIT
#pragma once

// How the test was built: under a sanitizer or without optimisation, sweeps take larger strides.

#if defined(__SANITIZE_ADDRESS__)
#define SWIGLU_TEST_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SWIGLU_TEST_ADDRESS_SANITIZER 1
#endif
#endif
#if !defined(SWIGLU_TEST_ADDRESS_SANITIZER)
#define SWIGLU_TEST_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__)
#define SWIGLU_TEST_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SWIGLU_TEST_THREAD_SANITIZER 1
#endif
#endif
#if !defined(SWIGLU_TEST_THREAD_SANITIZER)
#define SWIGLU_TEST_THREAD_SANITIZER 0
#endif

namespace test {

#if defined(__OPTIMIZE__) && !SWIGLU_TEST_ADDRESS_SANITIZER && !SWIGLU_TEST_THREAD_SANITIZER
inline constexpr bool fast_build = true;
#else
inline constexpr bool fast_build = false;
#endif

}  // namespace test

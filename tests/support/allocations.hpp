// SPDX-License-Identifier: MIT
#pragma once

// Replaces every operator new by one that counts. Included by one translation unit of a program.

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace test {

inline std::atomic<std::size_t> allocations_so_far{0};

/// How often f allocated.
template <class F>
std::size_t allocations_of(F f) {
  const std::size_t before = allocations_so_far.load();
  f();
  return allocations_so_far.load() - before;
}

namespace detail {

inline void* allocate(std::size_t bytes, std::size_t align) noexcept {
  ++allocations_so_far;
  const std::size_t rounded = (bytes + align - 1) / align * align;
  return align <= alignof(std::max_align_t) ? std::malloc(bytes == 0 ? 1 : bytes)
                                            : std::aligned_alloc(align, rounded == 0 ? align : rounded);
}
inline void* allocate_or_throw(std::size_t bytes, std::size_t align) {
  if (void* p = allocate(bytes, align)) return p;
  throw std::bad_alloc();
}

}  // namespace detail

}  // namespace test

// Not inlined: g++ otherwise warns of a mismatched pair where it inlines only one of the two.
[[gnu::noinline]] void* operator new(std::size_t n) { return test::detail::allocate_or_throw(n, 1); }
[[gnu::noinline]] void* operator new[](std::size_t n) { return test::detail::allocate_or_throw(n, 1); }
[[gnu::noinline]] void* operator new(std::size_t n, std::align_val_t a) {
  return test::detail::allocate_or_throw(n, std::size_t(a));
}
[[gnu::noinline]] void* operator new[](std::size_t n, std::align_val_t a) {
  return test::detail::allocate_or_throw(n, std::size_t(a));
}
[[gnu::noinline]] void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return test::detail::allocate(n, 1);
}
[[gnu::noinline]] void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  return test::detail::allocate(n, 1);
}
[[gnu::noinline]] void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return test::detail::allocate(n, std::size_t(a));
}
[[gnu::noinline]] void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return test::detail::allocate(n, std::size_t(a));
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

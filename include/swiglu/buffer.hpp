// SPDX-License-Identifier: MIT
#pragma once

// Owned memory: 64-byte aligned, zeroed once, never resized behind the owner's back. Everything the library allocates
// goes through here.

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <swiglu/config.hpp>

namespace swiglu {

/// Whether an object gets its memory, or only the shape: enough to ask a kernel what it would need.
enum class storage { owned, none };

/// `count` elements of a trivial type, zero-initialised, aligned to 64 bytes (to 2 MiB from 4 MiB on, where huge pages
/// are asked for: a matrix of that size otherwise spends its time in page walks). Movable only. Throws std::bad_alloc.
template <class T>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  buffer() = default;
  explicit buffer(std::size_t count) : size_(count) {
    if (count == 0) return;
    if (count > static_cast<std::size_t>(-1) / 2 / sizeof(T)) throw std::bad_array_new_length();
    const std::size_t bytes = count * sizeof(T);
    const std::align_val_t align{bytes >= huge_from ? huge_page : alignment};
    data_ = {static_cast<T*>(::operator new(bytes, align)), release{align}};
#if defined(__linux__)
    if (bytes >= huge_from) (void)::madvise(data_.get(), bytes, MADV_HUGEPAGE);  // a hint: failure is no error
#endif
    std::memset(static_cast<void*>(data_.get()), 0, bytes);
  }

  buffer(buffer&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  buffer& operator=(buffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t huge_page = std::size_t{2} << 20, huge_from = std::size_t{4} << 20;
  struct release {
    std::align_val_t align{alignment};
    void operator()(T* p) const { ::operator delete(p, align); }
  };
  std::unique_ptr<T[], release> data_;
  std::size_t size_ = 0;
};

}  // namespace swiglu

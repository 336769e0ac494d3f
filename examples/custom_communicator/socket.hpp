// SPDX-License-Identifier: MIT
#pragma once

// One end of a connection between two processes. A peer that has ended, or that says nothing for ten seconds, is an
// exception: so no rank waits for ever for one that failed.

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace example {

class socket {
 public:
  explicit socket(int descriptor) : descriptor_(descriptor) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  socket(socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  socket& operator=(socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  /// Two ends of a new connection.
  static std::pair<socket, socket> connected() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0)
      throw std::system_error(errno, std::generic_category(), "socketpair");
    return {socket(ends[0]), socket(ends[1])};
  }

  void write(std::span<const float> numbers) { write(std::as_bytes(numbers)); }
  void write(std::size_t number) { write(std::as_bytes(std::span(&number, 1))); }
  void read(std::span<float> numbers) { read(std::as_writable_bytes(numbers)); }
  std::size_t read() {
    std::size_t number = 0;
    read(std::as_writable_bytes(std::span(&number, 1)));
    return number;
  }

 private:
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw std::system_error(errno, std::generic_category(), "a rank cannot be reached");
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  void read(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw std::system_error(errno, std::generic_category(), "a rank does not answer");
      if (n == 0) throw std::runtime_error("a rank has left");
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }

  int descriptor_;
};

}  // namespace example

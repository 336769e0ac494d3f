// SPDX-License-Identifier: MIT
#pragma once

// A transport of one's own. Nothing of the library is included here: a communicator is any class with rank(), size()
// and all_reduce(span). How its sockets come to be, and who runs the ranks, is in processes.hpp.

#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "socket.hpp"

namespace example {

// [star]
/// Every rank has a socket to rank 0, which adds up and sends the sum to all: a star.
class star {
 public:
  /// `sockets`: of rank 0, those to ranks 1, 2, ...; of any other rank, the one to rank 0.
  star(int rank, int size, std::vector<socket> sockets) : rank_(rank), size_(size), sockets_(std::move(sockets)) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  void all_reduce(std::span<float> buffer) {
    if (size_ == 1) return;
    if (rank_ == 0) {
      std::vector<float> term(buffer.size());
      for (socket& peer : sockets_) {  // in ascending rank
        receive(peer, term);
        for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] += term[i];
      }
      for (socket& peer : sockets_) send(peer, buffer);
    } else {
      send(sockets_[0], buffer);
      receive(sockets_[0], buffer);
    }
  }

 private:
  // A message begins with its length: so one of no elements is a message, too, and one of another length is noticed.
  void send(socket& to, std::span<const float> numbers) {
    to.write(numbers.size());
    to.write(numbers);
  }
  void receive(socket& from, std::span<float> numbers) {
    if (from.read() != numbers.size()) throw std::runtime_error("a rank calls with another count");
    from.read(numbers);
  }

  int rank_, size_;
  std::vector<socket> sockets_;
};
// [/star]

}  // namespace example

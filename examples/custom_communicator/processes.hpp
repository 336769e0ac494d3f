// SPDX-License-Identifier: MIT
#pragma once

// Runs a function in a process per rank of a data x tensor mesh.

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include <swiglu/comm/mesh.hpp>

#include "socket.hpp"
#include "star.hpp"

namespace example {

/// The communicators of all ranks along one axis of `size`.
inline std::vector<star> connect(int size) {
  std::vector<std::vector<socket>> ends(static_cast<std::size_t>(size));
  for (std::size_t r = 1; r < ends.size(); ++r) {
    auto [first, second] = socket::connected();
    ends[0].push_back(std::move(first));
    ends[r].push_back(std::move(second));
  }
  std::vector<star> line;
  for (int r = 0; r < size; ++r) line.emplace_back(r, size, std::move(ends[static_cast<std::size_t>(r)]));
  return line;
}

/// Calls fn(swiglu::mesh) in data * tensor processes of its own. Returns whether all of them ended without an exception
/// and fn returned true everywhere. A process that fails closes its sockets, which its peers notice.
template <class Fn>
bool run_processes(int data, int tensor, Fn fn) {
  std::vector<std::vector<star>> data_lines, tensor_lines;
  for (int t = 0; t < tensor; ++t) data_lines.push_back(connect(data));
  for (int d = 0; d < data; ++d) tensor_lines.push_back(connect(tensor));
  std::fflush(nullptr);  // or every process would print what this one has not yet

  std::vector<pid_t> children;
  bool good = true;
  for (int rank = 0; rank < data * tensor; ++rank) {
    const auto d = static_cast<std::size_t>(rank / tensor), t = static_cast<std::size_t>(rank % tensor);
    const pid_t child = ::fork();
    if (child < 0) {
      std::perror("fork");
      good = false;
      break;
    }
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    star data_axis = std::move(data_lines[t][d]), tensor_axis = std::move(tensor_lines[d][t]);
    data_lines.clear(), tensor_lines.clear();  // closes everybody else's ends
    bool done = false;
    try {
      done = fn(swiglu::mesh{data_axis, tensor_axis});
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    }
    std::fflush(nullptr);
    std::_Exit(done ? EXIT_SUCCESS : EXIT_FAILURE);
  }

  data_lines.clear(), tensor_lines.clear();
  for (const pid_t child : children) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
  }
  return good;
}

}  // namespace example

// SPDX-License-Identifier: MIT
#pragma once

// Runs a function on every rank of a mesh of threads.

#include <concepts>
#include <cstddef>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include <swiglu/comm/mesh.hpp>
#include <swiglu/comm/threads.hpp>

namespace swiglu {

/// What run_ranks gives to every rank of a mesh.
using thread_mesh = mesh<thread_communicator, thread_communicator>;

namespace comm_detail {

/// Calls body(rank) on a thread per rank, joins them all, then throws the error that came first, if any.
template <class Body>
void run_threads(const thread_world& world, Body body) {
  {
    std::vector<std::jthread> threads;
    try {
      threads.reserve(static_cast<std::size_t>(world.size()));
      for (int rank = 0; rank < world.size(); ++rank) threads.emplace_back(body, rank);
    } catch (...) {
      world.abort(std::current_exception());  // the ranks that did start wait for those that did not
    }
  }
  if (const std::exception_ptr error = world.error()) std::rethrow_exception(error);
}

/// Calls fn(place) for a rank whose place, a communicator or a mesh, can be aborted. That has to happen before the
/// communicators are destroyed, or the failure would look like a departure.
template <class Fn, class Place>
void call_or_abort(Fn& fn, Place& place) {
  try {
    fn(place);
  } catch (...) {
    place.abort(std::current_exception());
  }
}

}  // namespace comm_detail

/// Starts data * tensor threads and calls `fn(mesh)` on each, with its communicators along both axes; returns when all
/// have ended. `fn` is shared by all threads. If a rank throws, all ranks that wait or communicate afterwards are
/// thrown out, and the first error, the root cause, is rethrown here; so is the error given to an abort(), even if no
/// rank threw.
template <class Fn>
  requires std::invocable<Fn&, thread_mesh&>
void run_ranks(int data, int tensor, Fn&& fn, thread_options options = {}) {
  const thread_world world(data, tensor, std::move(options));
  comm_detail::run_threads(world, [&](int rank) {
    thread_communicator data_axis = world.data(rank);
    thread_communicator tensor_axis = world.tensor(rank);
    thread_mesh axes(data_axis, tensor_axis);
    comm_detail::call_or_abort(fn, axes);
  });
}

/// The same with ranks along a single axis: calls `fn(communicator)` on each of `size` threads.
template <class Fn>
  requires std::invocable<Fn&, thread_communicator&>
void run_ranks(int size, Fn&& fn, thread_options options = {}) {
  const thread_world world(size, std::move(options));
  comm_detail::run_threads(world, [&](int rank) {
    thread_communicator communicator = world.data(rank);
    comm_detail::call_or_abort(fn, communicator);
  });
}

}  // namespace swiglu

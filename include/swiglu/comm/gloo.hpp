// SPDX-License-Identifier: MIT
#pragma once

// Ranks that talk through Gloo, over TCP say: processes or threads, on one machine or several. Include it by name and
// link swiglu::gloo. Gloo does not compare calls, swiglu::checked does; its order of additions depends on the count,
// swiglu::rank_ordered has another one.

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/common/error.h>
#include <gloo/context.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/device.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <swiglu/comm/collectives.hpp>
#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/detail/call_guard.hpp>
#include <swiglu/comm/mesh.hpp>

namespace swiglu {

namespace comm_detail {

template <class T>
concept gloo_element =
    (std::floating_point<T> || std::integral<T>)&&!std::same_as<T, bool> && std::same_as<T, std::remove_cv_t<T>>;

}  // namespace comm_detail

/// One rank of a Gloo context that is connected and used by nobody else. Elements: floating-point and integral types.
/// It belongs to one thread at a time, except abort(). There is no iall_reduce.
///
/// Errors: collective_timeout after the time given, else that of the context (Gloo's default: 30 s);
/// communicator_error for any other failure of Gloo, such as a peer that has gone; after either, the context is dead,
/// on the other ranks too as soon as they use it, and every later call throws communicator_aborted at once.
/// std::invalid_argument for wrong sizes and a time below a millisecond; std::logic_error for a call during another.
/// Gloo does not say which rank is missing.
class gloo_communicator {
 public:
  explicit gloo_communicator(std::shared_ptr<gloo::Context> context,
                             std::optional<std::chrono::milliseconds> timeout = {})
      : context_(std::move(context)) {
    if (!context_) throw std::invalid_argument("swiglu::gloo_communicator: there is no context");
    timeout_ = timeout.value_or(context_->getTimeout());
    comm_detail::require_size(timeout_.count() > 0,
                              "swiglu::gloo_communicator: the timeout has to be a millisecond at least");
  }
  gloo_communicator(const gloo_communicator&) = delete;
  gloo_communicator& operator=(const gloo_communicator&) = delete;

  int rank() const noexcept { return context_->rank; }
  int size() const noexcept { return context_->size; }

  template <comm_detail::gloo_element T>
  void all_reduce(std::span<T> buffer) {
    const call_guard::session session(guard_);
    run([&] {
      if (size() == 1) return;
      if (buffer.empty()) return meet();
      gloo::AllreduceOptions how(context_);
      how.setOutput(buffer.data(), buffer.size());
      how.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<T>));
      finish(how);
      gloo::allreduce(how);
    });
  }

  /// Leaves part rank() of the sum of `in` in `out`, added in ascending rank; in.size() == size() * out.size().
  /// Allocates memory for the terms.
  template <comm_detail::gloo_element T>
  void reduce_scatter(std::span<const T> in, std::span<T> out) {
    const call_guard::session session(guard_);
    require_sizes(in.size(), out.size());
    run([&] {
      if (in.empty()) return meet();
      std::vector<T> terms(in.begin(), in.end());
      if (size() > 1) {
        gloo::AlltoallOptions how(context_);
        how.setInput(const_cast<T*>(in.data()), in.size());  // is only read
        how.setOutput(terms.data(), terms.size());
        finish(how);
        gloo::alltoall(how);
      }
      std::copy_n(terms.begin(), out.size(), out.begin());
      for (std::size_t i = out.size(); i < terms.size(); ++i) {
        T& sum = out[i % out.size()];
        sum = static_cast<T>(sum + terms[i]);
      }
    });
  }

  /// Leaves the inputs of all ranks in `out`, in ascending rank; out.size() == size() * in.size().
  template <comm_detail::gloo_element T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    const call_guard::session session(guard_);
    require_sizes(out.size(), in.size());
    run([&] {
      if (in.empty()) return meet();
      if (size() == 1) return void(std::ranges::copy(in, out.begin()));
      gloo::AllgatherOptions how(context_);
      how.setInput(const_cast<T*>(in.data()), in.size());  // is only read
      how.setOutput(out.data(), out.size());
      finish(how);
      gloo::allgather(how);
    });
  }

  /// Closes this rank's connections: the calls of its peers fail at once, and its own later ones. (One that another
  /// thread of this rank is in ends at its deadline: Gloo does not wake it.)
  void abort(std::exception_ptr) noexcept {
    aborted_.store(true);
    try {
      context_->closeConnections();
    } catch (...) {  // closed already
    }
  }

 private:
  using call_guard = comm_detail::call_guard;

  void require_sizes(std::size_t whole, std::size_t part) const {
    comm_detail::require_size(
        whole == part * static_cast<std::size_t>(size()),
        "swiglu::gloo_communicator: the larger span has to be size() times as long as the smaller");
  }

  /// A collective of nothing does nothing in Gloo.
  void meet() {
    if (size() == 1) return;
    gloo::BarrierOptions how(context_);
    finish(how);
    gloo::barrier(how);
  }

  template <class Options>
  void finish(Options& how) {
    how.setTag(tag_++);
    how.setTimeout(timeout_);
  }

  /// Makes a call; any failure in it is the last thing that happens here.
  template <class Call>
  void run(Call call) {
    const std::string who = "swiglu::gloo_communicator: rank " + std::to_string(rank()) + ": ";
    if (failure_) throw communicator_aborted(who + "an earlier call failed", failure_);
    if (aborted_.load()) throw communicator_aborted(who + "aborted", nullptr);
    try {
      try {
        call();
      } catch (const gloo::Exception& e) {
        const std::string what = e.what();
        if (aborted_.load()) throw communicator_aborted(who + "aborted: " + what, nullptr);
        if (what.find("imed out") != what.npos || what.find("imeout") != what.npos)
          throw collective_timeout(who + what);
        throw communicator_error(who + what);
      }
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

  std::shared_ptr<gloo::Context> context_;
  std::chrono::milliseconds timeout_{0};
  std::uint32_t tag_ = 0;
  call_guard guard_{"swiglu::gloo_communicator"};
  std::atomic<bool> aborted_{false};
  std::exception_ptr failure_;
};

/// A context of `size` ranks, connected: every rank calls this with its number, the same `name`, and a store that all
/// share. Throws communicator_error if the others do not come in time.
inline std::shared_ptr<gloo::Context> connect_gloo(gloo::rendezvous::Store& store,
                                                   std::shared_ptr<gloo::transport::Device> device,
                                                   const std::string& name, int rank, int size,
                                                   std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  try {
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->setTimeout(timeout);
    gloo::rendezvous::PrefixStore names(name, store);
    context->connectFullMesh(names, device);
    return context;
  } catch (const gloo::Exception& e) {
    throw communicator_error("swiglu::connect_gloo: rank " + std::to_string(rank) + ": " + e.what());
  }
}

/// Rank `rank` of a data x tensor mesh, row-major, and its communicators along both axes, connected through a store
/// that all ranks share. Throws std::invalid_argument if there is no such rank, else as connect_gloo does.
class gloo_mesh {
 public:
  gloo_mesh(gloo::rendezvous::Store& store, const std::shared_ptr<gloo::transport::Device>& device, int rank,
            int data_ranks, int tensor_ranks, std::chrono::milliseconds timeout = std::chrono::seconds(30))
      : data(line(store, device, "data", checked(rank, data_ranks, tensor_ranks) % tensor_ranks, rank / tensor_ranks,
                  data_ranks, timeout)),
        tensor(line(store, device, "tensor", rank / tensor_ranks, rank % tensor_ranks, tensor_ranks, timeout)) {}

  gloo_communicator data, tensor;

  mesh<gloo_communicator, gloo_communicator> axes() noexcept { return {data, tensor}; }

 private:
  static int checked(int rank, int data_ranks, int tensor_ranks) {
    if (data_ranks < 1 || tensor_ranks < 1 || rank < 0 || rank / tensor_ranks >= data_ranks)
      throw std::invalid_argument("swiglu::gloo_mesh: there is no rank " + std::to_string(rank) + " in a mesh of " +
                                  std::to_string(data_ranks) + " x " + std::to_string(tensor_ranks));
    return rank;
  }
  static std::shared_ptr<gloo::Context> line(gloo::rendezvous::Store& store,
                                             const std::shared_ptr<gloo::transport::Device>& device, const char* axis,
                                             int number, int rank, int size, std::chrono::milliseconds timeout) {
    return connect_gloo(store, device, std::string(axis) + std::to_string(number), rank, size, timeout);
  }
};

}  // namespace swiglu

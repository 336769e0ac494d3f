// SPDX-License-Identifier: MIT
#pragma once

// What the library asks of a transport between ranks, and nothing more: the concepts, the laws behind them, the errors.
// A transport is an ordinary class with three members (rank, size, all_reduce); it need not include this header or
// derive from anything. Every further member is a refinement: optional, detected by its shape, replaced by
// comm/collectives.hpp where it is missing. comm/check.hpp runs the laws below against a transport.

#include <concepts>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace swiglu {

/// communicator<C, T>: `C` adds up elements of type `T` over `size()` ranks.
///
///   int  rank() const, size() const        0 <= rank() < size(), constant for the life of the object
///   void all_reduce(std::span<T> buffer)   in place: afterwards every rank holds the sum over all ranks
///
/// The laws. A concept can only check the shape; the library relies on these:
///   1 order      All ranks of a communicator make the same calls, with the same counts, in the same order.
///   2 sum        all_reduce is collective and blocking, adds (never averages), and writes nothing outside the buffer.
///                Infinity and NaN of any rank reach every rank.
///   3 same bits  Afterwards the buffers of all ranks are equal bit for bit, in whatever order the terms were added.
///   4 empty      A call with count 0 takes part like any other: no rank returns before every rank has called.
///   5 alone      With size() == 1 it is the identity and touches nothing.
///   6 one call   at a time per object: the library never enters a communicator from two threads at once, and makes
///                no other call on it between starting a request and its wait().
///   7 borrowed   Buffers belong to the caller and are not kept after the call (or the request's wait()). The spans of
///                one call do not overlap.
///   8 failure    is an exception. After one, unless it is a collective_mismatch that every rank throws, every later
///                call throws at once, and the contents of the buffers are unspecified. No rank hangs because another
///                one failed.
///
/// Satisfied by swiglu::self, thread_communicator, mpi_communicator, gloo_communicator. Not by a class whose all_reduce returns an error code.
template <class C, class T>
concept communicator = requires(C& c, const C& k, std::span<T> buffer) {
  { k.rank() } -> std::convertible_to<int>;
  { k.size() } -> std::convertible_to<int>;
  { c.all_reduce(buffer) } -> std::same_as<void>;
};

/// bundled_communicator: several buffers in one call (NCCL says aggregated, c10d coalesced, oneCCL fused, XLA
/// variadic). Law: the same numbers as one call per buffer in order; the same bits too where the order is rank_order.
/// Buffers may be empty, and so may the bundle.
template <class C, class T>
concept bundled_communicator = communicator<C, T> && requires(C& c, std::span<const std::span<T>> buffers) {
  { c.all_reduce(buffers) } -> std::same_as<void>;
};

/// tagged_communicator: a bundle whose buffers carry names, one each. Two gradients of equal shape, swapped on one
/// rank, pass every check of sizes and are added to the wrong one silently; names are what tells them apart. Law: if
/// the ranks give different names, every rank throws and no buffer is changed.
template <class C, class T>
concept tagged_communicator = bundled_communicator<C, T> &&
    requires(C& c, std::span<const std::span<T>> buffers, std::span<const std::string_view> names) {
  { c.all_reduce(buffers, names) } -> std::same_as<void>;
};

/// request: a collective that was started. wait() blocks until it is complete and throws if it failed; test() never
/// blocks and says whether it is complete, in which case wait() returns at once. The buffer is borrowed until then: it
/// may be neither read nor written. A request that dies without having been waited for must not leave a transfer
/// behind: it waits, or, while an exception unwinds the stack, aborts.
template <class R>
concept request = std::movable<R> && requires(R& r) {
  { r.wait() } -> std::same_as<void>;
  { r.test() } -> std::same_as<bool>;
};

/// nonblocking_communicator: all_reduce in two halves. Law: starting never waits for another rank, and start plus
/// wait() does what all_reduce does. Whether anything moves between the two is the transport's affair.
template <class C, class T>
concept nonblocking_communicator = communicator<C, T> && requires(C& c, std::span<T> buffer) {
  { c.iall_reduce(buffer) } -> request;
};

/// scatter_gather_communicator: the two halves of an all_reduce by data. Laws: `in` and `out` do not overlap, `in` is
/// not changed; reduce_scatter has in.size() == size() * out.size() and leaves the r-th part of the sum on rank r;
/// all_gather has out.size() == size() * in.size() and leaves the inputs of all ranks everywhere, in ascending rank.
template <class C, class T>
concept scatter_gather_communicator = communicator<C, T> && requires(C& c, std::span<const T> in, std::span<T> out) {
  { c.reduce_scatter(in, out) } -> std::same_as<void>;
  { c.all_gather(in, out) } -> std::same_as<void>;
};

/// abortable_communicator: abort(error) ends the communicator on every rank. Laws: it never blocks, may be called any
/// number of times and from any thread, wakes ranks that wait in a call, and makes every later call throw at once.
template <class C>
concept abortable_communicator = requires(C& c, std::exception_ptr error) {
  requires noexcept(c.abort(error));
};

/// The order in which a communicator adds the terms of an element.
enum class reduction_order {
  unspecified,  ///< any, even another one the next time
  per_run,      ///< the same calls on the same data give the same bits
  rank_order    ///< ((x0 + x1) + x2) + ..., whatever the count, position or bundle of the element
};

/// What C promises: its static member `order` if it has one, else unspecified. May be specialised for a class one
/// cannot edit.
template <class C>
inline constexpr reduction_order reduction_order_v = reduction_order::unspecified;

template <class C>
  requires requires {
    { C::order } -> std::convertible_to<reduction_order>;
  }
inline constexpr reduction_order reduction_order_v<C> = C::order;

/// The root of the errors thrown by the library's own communicators.
class communicator_error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The ranks did not make the same call. Thrown on every rank of the communicator, with all buffers as they were, and
/// so the one error after which the communicator remains usable.
class collective_mismatch : public communicator_error {
  using communicator_error::communicator_error;
};

/// A rank waited longer than the deadline allows.
class collective_timeout : public communicator_error {
  using communicator_error::communicator_error;
};

/// Every rank of the mesh waits for another one, or has left: no call can complete any more.
class collective_deadlock : public communicator_error {
  using communicator_error::communicator_error;
};

/// A stop was requested through the std::stop_token that the ranks were given.
class collective_cancelled : public communicator_error {
  using communicator_error::communicator_error;
};

/// A rank left for good while others still needed it.
class peer_departed : public communicator_error {
 public:
  peer_departed(const std::string& what, int rank) : communicator_error(what), rank_(rank) {}

  /// The one that left, by its rank in the communicator that threw.
  int rank() const noexcept { return rank_; }

 private:
  int rank_;
};

/// Another rank failed first: this error is a consequence, and never the root cause.
class communicator_aborted : public communicator_error {
 public:
  communicator_aborted(const std::string& what, std::exception_ptr cause)
      : communicator_error(what), cause_(std::move(cause)) {}

  /// The root cause, as it was given to abort().
  const std::exception_ptr& cause() const noexcept { return cause_; }

 private:
  std::exception_ptr cause_;
};

}  // namespace swiglu

// SPDX-License-Identifier: MIT

// The layer as two XLA FFI targets on CPU, float32, weights as JAX code usually has them, [inputs, outputs]:
//
//     SwigluForward   x [.., hidden], gate, up [hidden, intermediate], down [intermediate, hidden] -> out, saved
//     SwigluBackward  grad_out, x, gate, up, down, saved -> grad_x, grad_gate, grad_up, grad_down
//
// swiglu_jax.py makes a differentiable function of them. Nothing is copied, and the kernels run on XLA's own threads.
// The headers come with jaxlib (jax.ffi.include_dir()).

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "any_shape.hpp"
#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;
using any_shape::layout;
using any_shape::make_matrix;
using array = ffi::Buffer<ffi::F32>;
using result = ffi::Result<array>;

/// The executor: XLA's threads, and the caller's. Whoever is free takes the next part, so that the caller never waits
/// for a part that nobody has begun: XLA's threads may all be busy with calls like this one.
class xla_threads {
 public:
  explicit xla_threads(ffi::ThreadPool& pool) : pool_(pool) {}
  std::size_t threads() const { return std::max<std::size_t>(1, static_cast<std::size_t>(pool_.num_threads())); }
  template <class F>
  void run(std::size_t n, const F& f) const {
    if (n == 0) return;
    if (n == 1) return f(0);
    struct shared {
      std::atomic<std::size_t> next{0}, done{0};
    };
    const auto s = std::make_shared<shared>();
    // A task may begin long after the call has returned: then there is no part left, and `f` is not looked at.
    const auto take_parts = [s, n, &f] {
      for (std::size_t i; (i = s->next.fetch_add(1)) < n;) {
        f(i);
        if (s->done.fetch_add(1) + 1 == n) s->done.notify_all();
      }
    };
    for (std::size_t i = 1; i < n; ++i) pool_.Schedule([take_parts] { take_parts(); });
    take_parts();
    for (std::size_t done; (done = s->done.load()) != n;) s->done.wait(done);
  }

 private:
  ffi::ThreadPool& pool_;
};
static_assert(swiglu::executor<xla_threads>);

template <class T, class Buffer>
any_shape::matrix<T> as_matrix(const Buffer& b) {
  const auto extents = b.dimensions();
  const auto cols = static_cast<std::size_t>(extents.back());
  return make_matrix<T>(b.typed_data(), cols == 0 ? 0 : b.element_count() / cols, cols);
}

/// Memory that the calls of a thread share.
any_shape::workspace<float>& workspace() {
  thread_local any_shape::workspace<float> ws;
  return ws;
}

std::string shape_text(ffi::Span<const std::int64_t> extents) {
  std::string text = "[";
  for (const std::int64_t e : extents) text += (text.size() > 1 ? ", " : "") + std::to_string(e);
  return text + "]";
}

/// Empty if the shapes are those of a layer.
std::string problem(const array& x, const array& gate, const array& up, const array& down) {
  const auto xs = x.dimensions(), gs = gate.dimensions(), us = up.dimensions(), ds = down.dimensions();
  if (xs.size() < 1 || gs.size() != 2)
    return "expected x [.., hidden] and gate [hidden, intermediate], got " + shape_text(xs) + " and " + shape_text(gs);
  if (xs.back() != gs[0])
    return "columns of x: expected " + std::to_string(gs[0]) + ", got " + std::to_string(xs.back());
  if (us.size() != 2 || us[0] != gs[0] || us[1] != gs[1])
    return "shape of up: expected " + shape_text(gs) + ", got " + shape_text(us);
  if (ds.size() != 2 || ds[0] != gs[1] || ds[1] != gs[0])
    return "shape of down: expected [" + std::to_string(gs[1]) + ", " + std::to_string(gs[0]) + "], got " +
           shape_text(ds);
  if (gs[0] == 0 || gs[1] == 0) return "extents are at least 1";
  return "";
}

/// Runs f; what it throws, or a problem found before, becomes XLA's error.
template <class F>
ffi::Error guarded(const std::string& problem, F f) {
  if (!problem.empty()) return ffi::Error::InvalidArgument("swiglu: mlp: " + problem);
  try {
    f();
    return ffi::Error::Success();
  } catch (const std::exception& e) {
    return ffi::Error::Internal(e.what());
  }
}

ffi::Error forward(ffi::ThreadPool pool, array x, array gate, array up, array down, result out, result saved) {
  return guarded(problem(x, gate, up, down), [&] {
    const auto rows = as_matrix<const float>(x);
    const auto intermediate = static_cast<std::size_t>(gate.dimensions()[1]);
    if (saved->element_count() != rows.rows() * any_shape::saved_columns(intermediate))
      throw std::invalid_argument("swiglu: mlp: saved has another size than swiglu_jax.py gives it");
    xla_threads threads(pool);
    any_shape::forward<layout::in_out, float>(
        workspace(), threads, rows,
        {as_matrix<const float>(gate), as_matrix<const float>(up), as_matrix<const float>(down)},
        {saved->typed_data(), rows.rows(), intermediate}, as_matrix<float>(*out));
  });
}

ffi::Error backward(ffi::ThreadPool pool, array grad_out, array x, array gate, array up, array down, array saved,
                    result grad_x, result grad_gate, result grad_up, result grad_down) {
  return guarded(problem(x, gate, up, down), [&] {
    const auto rows = as_matrix<const float>(x);
    const auto intermediate = static_cast<std::size_t>(gate.dimensions()[1]);
    if (saved.element_count() != rows.rows() * any_shape::saved_columns(intermediate))
      throw std::invalid_argument("swiglu: mlp: saved is not what the forward pass returned");
    xla_threads threads(pool);
    any_shape::backward<layout::in_out, float>(
        workspace(), threads, as_matrix<const float>(grad_out), rows,
        {as_matrix<const float>(gate), as_matrix<const float>(up), as_matrix<const float>(down)},
        {saved.typed_data(), rows.rows(), intermediate}, as_matrix<float>(*grad_x),
        {as_matrix<float>(*grad_gate), as_matrix<float>(*grad_up), as_matrix<float>(*grad_down)});
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(SwigluForward, forward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<array>()
                                  .Arg<array>()
                                  .Arg<array>()
                                  .Arg<array>()
                                  .Ret<array>()
                                  .Ret<array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(SwigluBackward, backward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<array>()
                                  .Arg<array>()
                                  .Arg<array>()
                                  .Arg<array>()
                                  .Arg<array>()
                                  .Arg<array>()
                                  .Ret<array>()
                                  .Ret<array>()
                                  .Ret<array>()
                                  .Ret<array>());

// SPDX-License-Identifier: MIT

// The layer as PyTorch operators on CPU tensors, float32 or float64, weights as torch.nn.Linear has them:
//
//     swiglu::mlp_forward(x [.., hidden], gate, up [intermediate, hidden], down [hidden, intermediate]) -> (out, saved)
//     swiglu::mlp_backward(grad_out, x, gate, up, down, saved) -> (grad_x, grad_gate, grad_up, grad_down)
//
// swiglu_torch.py attaches the gradient. Nothing is copied: the library reads and writes the tensors' own memory, as
// long as rows are contiguous. The dispatcher has released the GIL when these functions run, and they run on PyTorch's
// threads (torch.set_num_threads). No Python header is needed.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "any_shape.hpp"

namespace {

using any_shape::layout;

/// The executor: PyTorch's own pool, so that the two never fight for the cores.
struct torch_threads {
  std::size_t threads() const { return static_cast<std::size_t>(at::get_num_threads()); }
  template <class F>
  void run(std::size_t n, const F& f) const {
    at::parallel_for(0, static_cast<std::int64_t>(n), 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) f(static_cast<std::size_t>(i));
    });
  }
};
static_assert(swiglu::executor<torch_threads>);

std::size_t extent(const at::Tensor& t, std::int64_t i) { return static_cast<std::size_t>(t.size(i)); }

/// A tensor as a matrix, its leading extents collapsed: the same memory, unless its rows are not contiguous.
struct rows_of {
  at::Tensor tensor;

  explicit rows_of(const at::Tensor& t) : tensor(t.dim() == 2 ? t : t.reshape({-1, t.size(-1)})) {
    const bool rows = tensor.stride(1) == 1 || tensor.size(1) <= 1;
    if (!rows || tensor.stride(0) < tensor.size(1)) tensor = tensor.contiguous();
  }
  template <class T>
  any_shape::matrix<T> as() const {
    const std::size_t rows = extent(tensor, 0), cols = extent(tensor, 1);
    auto* const data = static_cast<T*>(const_cast<void*>(tensor.const_data_ptr()));
    return any_shape::make_matrix<T>(data, rows, cols, rows > 1 ? static_cast<std::size_t>(tensor.stride(0)) : cols);
  }
};

struct weights {
  rows_of gate, up, down;

  template <class T>
  any_shape::three<T> as() const {
    return {gate.as<T>(), up.as<T>(), down.as<T>()};
  }
};

void check_shapes(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& up, const at::Tensor& down) {
  TORCH_CHECK(x.dim() >= 1 && gate.dim() == 2,
              "swiglu: mlp: expected x [.., hidden] and gate [intermediate, hidden], got ", x.sizes(), " and ",
              gate.sizes());
  const std::int64_t intermediate = gate.size(0), hidden = gate.size(1);
  TORCH_CHECK(x.size(-1) == hidden, "swiglu: mlp: columns of x: expected ", hidden, ", got ", x.size(-1));
  TORCH_CHECK(up.sizes() == gate.sizes(), "swiglu: mlp: shape of up: expected ", gate.sizes(), ", got ", up.sizes());
  TORCH_CHECK(down.dim() == 2 && down.size(0) == hidden && down.size(1) == intermediate,
              "swiglu: mlp: shape of down: expected [", hidden, ", ", intermediate, "], got ", down.sizes());
  TORCH_CHECK(hidden > 0 && intermediate > 0, "swiglu: mlp: extents are at least 1");
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble,
              "swiglu: mlp: dtype of x: expected float32 or float64, got ", x.scalar_type());
  for (const at::Tensor* t : {&gate, &up, &down})
    TORCH_CHECK(t->scalar_type() == x.scalar_type(), "swiglu: mlp: dtype of a weight: expected ", x.scalar_type(),
                ", got ", t->scalar_type());
}

/// Memory that the calls of a thread share.
template <class T>
any_shape::workspace<T>& workspace() {
  thread_local any_shape::workspace<T> ws;
  return ws;
}

template <class F>
void for_type(at::ScalarType type, F f) {
  if (type == at::kFloat)
    f(float());
  else
    f(double());
}

std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& up,
                                           const at::Tensor& down) {
  check_shapes(x, gate, up, down);
  const rows_of rows(x);
  const weights w{rows_of(gate), rows_of(up), rows_of(down)};
  const std::size_t tokens = extent(rows.tensor, 0), intermediate = extent(gate, 0);
  const at::Tensor out = at::empty(x.sizes(), x.options());
  const at::Tensor saved =
      at::empty({rows.tensor.size(0), static_cast<std::int64_t>(any_shape::saved_columns(intermediate))}, x.options());
  for_type(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    torch_threads threads;
    T* const memory = saved.mutable_data_ptr<T>();
    const any_shape::saved<T> s(memory, tokens, intermediate);
    any_shape::forward<layout::out_in, T>(workspace<T>(), threads, rows.as<const T>(), w.as<const T>(), s,
                                          rows_of(out).as<T>());
    std::fill(memory + s.used(), memory + saved.numel(), T(0));  // the same arguments, the same results
  });
  return {out, saved};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& grad_out, const at::Tensor& x,
                                                                    const at::Tensor& gate, const at::Tensor& up,
                                                                    const at::Tensor& down, const at::Tensor& saved) {
  check_shapes(x, gate, up, down);
  const rows_of rows(x);
  const std::size_t tokens = extent(rows.tensor, 0), intermediate = extent(gate, 0);
  TORCH_CHECK(grad_out.sizes() == x.sizes() && grad_out.scalar_type() == x.scalar_type(),
              "swiglu: mlp_backward: grad_out: expected ", x.scalar_type(), " ", x.sizes(), ", got ",
              grad_out.scalar_type(), " ", grad_out.sizes());
  TORCH_CHECK(saved.dim() == 2 && saved.size(0) == rows.tensor.size(0) &&
                  extent(saved, 1) == any_shape::saved_columns(intermediate) && saved.is_contiguous() &&
                  saved.scalar_type() == x.scalar_type(),
              "swiglu: mlp_backward: saved is not what mlp_forward returned for this x");
  const weights w{rows_of(gate), rows_of(up), rows_of(down)};
  const rows_of grad_rows(grad_out);
  const at::Tensor grad_x = at::empty(x.sizes(), x.options());
  const at::Tensor grad_gate = at::empty(gate.sizes(), gate.options()), grad_up = at::empty(up.sizes(), up.options()),
                   grad_down = at::empty(down.sizes(), down.options());
  const weights grad_w{rows_of(grad_gate), rows_of(grad_up), rows_of(grad_down)};
  for_type(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    torch_threads threads;
    any_shape::backward<layout::out_in, T>(workspace<T>(), threads, grad_rows.as<const T>(), rows.as<const T>(),
                                           w.as<const T>(),
                                           any_shape::saved<const T>(saved.const_data_ptr<T>(), tokens, intermediate),
                                           rows_of(grad_x).as<T>(), grad_w.as<T>());
  });
  return {grad_x, grad_gate, grad_up, grad_down};
}

}  // namespace

TORCH_LIBRARY(swiglu, m) {
  m.def("mlp_forward(Tensor x, Tensor gate, Tensor up, Tensor down) -> (Tensor, Tensor)");
  m.def(
      "mlp_backward(Tensor grad_out, Tensor x, Tensor gate, Tensor up, Tensor down, Tensor saved) -> "
      "(Tensor, Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(swiglu, CPU, m) {
  m.impl("mlp_forward", &forward);
  m.impl("mlp_backward", &backward);
}

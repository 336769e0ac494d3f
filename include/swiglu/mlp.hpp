// SPDX-License-Identifier: MIT
#pragma once

// The layer: forward and backward of one rank, alone or on a data x tensor mesh. The only place where compute meets
// communication.

#include <swiglu/config.hpp>  // first: it says which C++ is needed

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <swiglu/comm/mesh.hpp>
#include <swiglu/comm/self.hpp>
#include <swiglu/exec/serial.hpp>
#include <swiglu/expr/evaluate.hpp>
#include <swiglu/mlp/arguments.hpp>
#include <swiglu/mlp/backward.hpp>
#include <swiglu/mlp/forward.hpp>
#include <swiglu/mlp/shard.hpp>
#include <swiglu/mlp/small.hpp>
#include <swiglu/mlp/staging.hpp>

namespace swiglu {
inline namespace SWIGLU_ABI {

/// The SwiGLU MLP of shape `D` with elements T. All functions are static: the state is in the arguments, so that any
/// number of layers, micro-batches and ranks share one instantiation.
///
///     forward   out = (silu(x gate) * (x up)) down
///     backward  grad_x, and the gradients of gate, up, down, given grad_out
///
/// x, out, grad_out, grad_x: tensors or views [tokens, hidden] (leading extents collapse into tokens), any row pitch;
/// 0 tokens are a batch like any other. Weights, and gradients, in D.layout: see params.hpp, layout.hpp. Errors:
/// shape_error or std::invalid_argument before anything is written; with axes also what the communicators throw. out
/// and grad_x may be the memory of an input activation of the same call, except that grad_x may not overlap x; no
/// result may overlap a weight. Thread safety: concurrent calls are fine as long as they share no saved, workspace or
/// result.
template <real T, dims D, schedule S = schedule::fused, executor X = serial>
class mlp {
  static_assert(D.hidden > 0 && D.intermediate > 0 && D.tensor_parallel > 0, "swiglu: mlp: extents are at least 1");
  static_assert(D.intermediate % D.tensor_parallel == 0,
                "swiglu: mlp: tensor_parallel has to divide the intermediate extent");
  static_assert(!S.overlap || S.grad_x != schedule::branches::reduce_then_add,
                "swiglu: mlp: a schedule that adds the branches of grad_x after their sum does not overlap it");
  static constexpr std::size_t hidden = D.hidden, intermediate = D.local_intermediate();
  /// Small layers have kernels of their shape, under the default schedule with memory of its own; all others share the
  /// kernels of run-time shape.
  static constexpr bool small = is_small<T>(D.tokens, hidden, intermediate) && (is_fused_small<S> || !S.in_panels());
  static constexpr bool fused_small = small && is_fused_small<S>;
  static constexpr std::size_t Rows = small ? D.tokens : dynamic, Hidden = small ? hidden : dynamic,
                               Cols = small ? intermediate : dynamic;
  static constexpr bool two_branches = S.grad_x != schedule::branches::one_contraction;
  using saved_memory =
      std::conditional_t<fused_small, small_saved<T, Rows, Cols>, layer_values<T, S, true, Rows, Cols>>;
  using workspace_memory = std::conditional_t<fused_small, small_workspace<T, Rows, Hidden, Cols>,
                                              layer_workspace<T, S, Rows, Hidden, Cols>>;
  using matrix = view<T, dynamic, dynamic>;
  // Matrices as the kernels take them.
  template <class U>
  using activation_matrix = view<U, Rows, Hidden>;
  using kernel_weights = weights_view<const T, Hidden, Cols, D.layout>;
  using kernel_gradients = weights_view<T, Hidden, Cols, D.layout>;

 public:
  static constexpr dims shape = D;
  using weights = swiglu::weights<T, hidden, intermediate, D.layout>;
  using gradients = weights;

  /// Floating-point operations of a pass over `tokens` tokens on one rank, as the mathematics counts them.
  static constexpr double forward_flops(std::size_t tokens) {
    return 6.0 * static_cast<double>(tokens) * static_cast<double>(hidden) * static_cast<double>(intermediate);
  }
  static constexpr double backward_flops(std::size_t tokens) { return 2 * forward_flops(tokens); }

  /// What backward needs of forward. One for each layer and micro-batch in flight. Allocates once, for at most
  /// `tokens` tokens a call; `tokens()` are those of the last forward pass.
  class saved : public saved_memory {
   public:
    explicit saved(std::size_t tokens) : saved_memory(tokens, intermediate) { saved_memory::set_tokens(0); }
    saved() requires(D.tokens != dynamic) : saved(D.tokens) {}
  };

  /// Scratch memory of a rank: one serves every layer of this shape in turn. Allocates once, for at most `tokens`
  /// tokens a call; results that are summed over an axis and cannot be summed in place (a pitched out, accumulated or
  /// scattered gradients) get their staging memory with the first such call.
  class workspace : public workspace_memory {
   public:
    explicit workspace(std::size_t tokens, X threads = X())
        : workspace_memory(tokens, hidden, intermediate), threads_(std::move(threads)) {
      memory_.measure([&] { measure(tokens); });
    }
    workspace() requires(D.tokens != dynamic) : workspace(D.tokens) {}

    std::size_t bytes() const { return workspace_memory::bytes() + memory_.bytes() + staging_.size() * sizeof(T); }
    resources<T, X> on() {
      return {memory_, threads_, {S.l1 != 0 ? S.l1 : default_caches.l1, S.l2 != 0 ? S.l2 : default_caches.l2}};
    }
    T* staging(std::size_t elements) {
      if (elements > staging_.size()) staging_ = buffer<T>(elements);
      return staging_.data();
    }

   private:
    void measure(std::size_t tokens) {
      if (small) tokens = D.tokens;
      using shape = extents<dynamic, dynamic>;
      const activation_matrix<T> activation(nullptr, shape{tokens, hidden});
      const auto w = impl::as_operands<false, D.layout>(kernel_weights::without_memory(hidden, intermediate));
      const auto grad_w = impl::as_operands<true, D.layout>(kernel_gradients::without_memory(hidden, intermediate));
      saved_memory s(tokens, intermediate, storage::none);
      workspace_memory ws(tokens, hidden, intermediate, storage::none);
      forward_kernels(on(), activation, w, s, ws, activation);
      backward_kernels_of_x(on(), activation, activation, w, s, ws, activation);
      backward_kernels_of_w(on(), activation, s, ws, grad_w.gate, grad_w.up, grad_w.down);
    }

    X threads_;
    scratch<T> memory_;
    buffer<T> staging_;
  };

  /// Forward on the mesh: `Out` says what becomes of the partial sums of out over the tensor axis. With
  /// reduction::sequence_parallel x and out are this rank's share of the tokens; so are x, grad_out and grad_x of a
  /// backward pass whose grad_x is.
  template <reduction Out = reduction::all_reduce, class In, class W, class O, class Data, class Tensor>
  static void forward(const In& x, const W& w, saved& s, workspace& ws, O&& out, const mesh<Data, Tensor>& axes) {
    check_axes("forward", axes);
    run_forward<Out>(x, w, s, ws, out, axes.tensor);
  }
  /// Forward of this rank alone; with tensor_parallel > 1 out is this rank's part of the sum.
  template <class In, class W, class O>
  static void forward(const In& x, const W& w, saved& s, workspace& ws, O&& out) {
    self alone;
    run_forward<reduction::unreduced>(x, w, s, ws, out, alone);
  }

  /// Backward on the mesh: `R` says what becomes of the partial sums of grad_x (tensor axis) and of the weight
  /// gradients (data axis; summed, never averaged). `x` and `s` are those of the forward pass. grad_w: gradients, or
  /// overwrite(gradients), or accumulate(gradients). The sum of grad_x travels while the weight gradients are computed,
  /// where the communicator can; the weight gradients travel in one bundle.
  template <reductions R = reductions{}, class G, class In, class W, class GradX, class GradW, class Data, class Tensor>
  static void backward(const G& grad_out, const In& x, const W& w, const saved& s, workspace& ws, GradX&& grad_x,
                       GradW&& grad_w, const mesh<Data, Tensor>& axes) {
    check_axes("backward", axes);
    run_backward<R>(grad_out, x, w, s, ws, grad_x, as_target(grad_w), axes.data, axes.tensor);
  }
  /// Backward of this rank alone.
  template <class G, class In, class W, class GradX, class GradW>
  static void backward(const G& grad_out, const In& x, const W& w, const saved& s, workspace& ws, GradX&& grad_x,
                       GradW&& grad_w) {
    self alone;
    run_backward<reductions{reduction::unreduced, reduction::unreduced}>(grad_out, x, w, s, ws, grad_x,
                                                                         as_target(grad_w), alone, alone);
  }

  /// Both passes with memory and an executor of their own, as one function: (out, grad_x, grad_gate, grad_up,
  /// grad_down), or where the layout packs them (out, grad_x, grad_gate_up, grad_down).
  template <reduction Out = reduction::all_reduce, reductions R = reductions{}, class In, class W, class G,
            class... Axes>
    requires std::default_initializable<X>
  static auto forward_and_backward(const In& x, const W& w, const G& grad_out, const Axes&... axes) {
    static_assert(!scatters(Out) && !scatters(R.grad_x) && !scatters(R.grad_w),
                  "swiglu: forward_and_backward returns whole tensors: call forward and backward to scatter them");
    const std::size_t tokens = x.rows();
    saved s(tokens);
    workspace ws(tokens);
    tensor<T, dynamic, hidden> out(tokens), grad_x(tokens);
    gradients g;
    if constexpr (sizeof...(Axes) == 0) {
      forward(x, w, s, ws, out);
      backward(grad_out, x, w, s, ws, grad_x, g);
    } else {
      forward<Out>(x, w, s, ws, out, axes...);
      backward<R>(grad_out, x, w, s, ws, grad_x, g, axes...);
    }
    if constexpr (D.layout.is_packed())
      return std::tuple(std::move(out), std::move(grad_x), std::move(g.gate_up), std::move(g.down));
    else
      return std::tuple(std::move(out), std::move(grad_x), std::move(g.gate), std::move(g.up), std::move(g.down));
  }

 private:
  /// Gradients passed without a word about it are overwritten.
  template <class G>
  static auto as_target(G& g) {
    if constexpr (impl::is_gradient_target<std::remove_const_t<G>>)
      return g;
    else
      return overwrite(g);
  }

  template <class Axes>
  static void check_axes(std::string_view where, const Axes& axes) {
    check_extent(where, "ranks of the tensor axis", D.tensor_parallel, static_cast<std::size_t>(axes.tensor.size()));
  }
  static void check_tokens(std::string_view where, std::size_t tokens, std::size_t saved, std::size_t workspace) {
    if (D.tokens != dynamic) check_extent(where, "tokens", D.tokens, tokens);
    if (tokens > saved) throw shape_error(std::string(where) + ": tokens above the capacity of saved", saved, tokens);
    if (tokens > workspace)
      throw shape_error(std::string(where) + ": tokens above the capacity of workspace", workspace, tokens);
  }
  template <reduction Out, class In, class W, class O, class Tensor>
  static void run_forward(const In& x_in, const W& w_in, saved& s, workspace& ws, O& out_in, Tensor& axis) {
    const auto ranks = static_cast<std::size_t>(axis.size());
    const std::size_t tokens = x_in.rows() * (Out == reduction::sequence_parallel ? ranks : 1);
    check_tokens("forward", tokens, s.capacity(), ws.capacity());
    gathered_tensor<T> x(impl::activation<view<const T, dynamic, dynamic>, hidden>("forward: x", x_in, x_in.rows()),
                         Out, ranks);
    const auto w = impl::weights_in_memory<kernel_weights, D>(w_in);
    staged_tensor<T> out(
        impl::activation<matrix, hidden>("forward: out", out_in, impl::rows_of("forward: out", tokens, Out, ranks)),
        Out, ranks, false);
    give_staging(ws, x, out);
    w.each([&](const auto& p) { impl::refuse_overlap("forward: out and a weight", out.to(), p); });

    ws.set_tokens(tokens);
    s.set_tokens(tokens);
    const auto all_x = x.whole(axis);
    forward_kernels(ws.on(), impl::matrix_as<activation_matrix<const T>>(all_x), impl::as_operands<false, D.layout>(w),
                    s, ws, activation_matrix<T>(out.target()));
    if (!out.reduced()) return;
    if (out.scattered())
      reduce_scatter<T>(axis, out.full(), out.part());
    else
      sum_bundle<1>(axis, {out.full()}, {"out"});
    out.deliver(ws.on());
  }

  template <std::size_t N, class C>
  static void sum_bundle(C& axis, const std::array<std::span<T>, N>& buffers,
                         const std::array<std::string_view, N>& names) {
    all_reduce<T>(axis, buffers, names);
  }

  template <reductions R, class G, class In, class W, class GradX, class Gradients, bool Accumulate, class Data,
            class Tensor>
  static void run_backward(const G& grad_out_in, const In& x_in, const W& w_in, const saved& s, workspace& ws,
                           GradX& grad_x_in, gradient_target<Gradients, Accumulate> target, Data& data, Tensor& axis) {
    const auto data_ranks = static_cast<std::size_t>(data.size()), ranks = static_cast<std::size_t>(axis.size());
    const std::size_t share = x_in.rows(), tokens = share * (R.grad_x == reduction::sequence_parallel ? ranks : 1);
    check_tokens("backward", tokens, s.capacity(), ws.capacity());
    check_extent("backward: rows of x (tokens of the forward pass)", s.tokens(), tokens);
    using input = view<const T, dynamic, dynamic>;
    gathered_tensor<T> x_share(impl::activation<input, hidden>("backward: x", x_in, share), R.grad_x, ranks);
    gathered_tensor<T> grad_out_share(impl::activation<input, hidden>("backward: grad_out", grad_out_in, share),
                                      R.grad_x, ranks);
    const auto w = impl::weights_in_memory<kernel_weights, D>(w_in);
    staged_tensor<T> grad_x(
        impl::activation<matrix, hidden>("backward: grad_x", grad_x_in,
                                         impl::rows_of("backward: grad_x", tokens, R.grad_x, ranks)),
        R.grad_x, ranks, false);
    auto g = impl::gradients<T, D, R.grad_w, Accumulate>(target.to, data_ranks);
    std::apply([&](auto&... one) { give_staging(ws, x_share, grad_out_share, grad_x, one...); }, g.matrix);
    impl::refuse_overlaps(grad_x, g.matrix, x_share.from(), grad_out_share.from(), w);

    ws.set_tokens(tokens);
    const auto all_x = x_share.whole(axis), all_grad_out = grad_out_share.whole(axis);
    const auto x = impl::matrix_as<activation_matrix<const T>>(all_x);
    const auto grad_out = impl::matrix_as<activation_matrix<const T>>(all_grad_out);
    const auto weights_pass = [&] {
      const auto grad_w = impl::as_operands<true, D.layout>(g.template target<kernel_gradients>());
      // A staged gradient is overwritten here and accumulated when it is delivered.
      if constexpr (Accumulate)
        if (!g.matrix[0].staged())
          return backward_kernels_of_w(ws.on(), x, s, ws, swiglu::accumulate(grad_w.gate),
                                       swiglu::accumulate(grad_w.up), swiglu::accumulate(grad_w.down));
      backward_kernels_of_w(ws.on(), x, s, ws, grad_w.gate, grad_w.up, grad_w.down);
    };
    const auto reduce_weights = [&] {
      if (!g.matrix[0].reduced()) return;
      if (g.matrix[0].scattered()) {
        for (const auto& one : g.matrix) reduce_scatter<T>(data, one.full(), one.part());
      } else if constexpr (S.bundle) {
        all_reduce<T>(data, g.full(), g.names());
      } else {
        for (std::size_t i = 0; i < g.count; ++i) sum_bundle<1>(data, {g.full()[i]}, {g.names()[i]});
      }
      for (const auto& one : g.matrix) one.deliver(ws.on());
    };
    const activation_matrix<T> to_grad_x(grad_x.target());
    const auto add_branches = [&] {
      if constexpr (two_branches) evaluate(ws.on(), noalias(to_grad_x) <<= ws.g_x_h3() + ws.g_x_h1());
    };

    backward_kernels_of_x(ws.on(), grad_out, x, impl::as_operands<false, D.layout>(w), s, ws, to_grad_x);
    const bool summed = grad_x.reduced() && !grad_x.scattered();
    if constexpr (S.grad_x == schedule::branches::reduce_then_add) {
      // The program's order: the weight gradients are summed first, then both branches of grad_x in one bundle.
      weights_pass();
      reduce_weights();
      const std::size_t n = tokens * hidden;
      if (summed)
        sum_bundle<2>(axis, {std::span<T>(ws.g_x_h3().data(), n), std::span<T>(ws.g_x_h1().data(), n)},
                      {"g_x_h3", "g_x_h1"});
      add_branches();
    } else {
      add_branches();
      if (S.overlap && summed) {
        auto travelling = start_all_reduce<T>(axis, grad_x.full(), "grad_x");
        weights_pass();
        reduce_weights();
        travelling.wait();
      } else {
        weights_pass();
        reduce_weights();
        if (summed) sum_bundle<1>(axis, {grad_x.full()}, {"grad_x"});
      }
    }
    if (grad_x.scattered()) reduce_scatter<T>(axis, grad_x.full(), grad_x.part());
    grad_x.deliver(ws.on());
  }
};

}  // namespace SWIGLU_ABI
}  // namespace swiglu

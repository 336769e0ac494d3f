// SPDX-License-Identifier: MIT

// The snippets of docs/embedding.md and docs/mathematics.md, compiled and run. Exits 1 if what they compute disagrees.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <swiglu/dlpack.hpp>
#include <swiglu/mlp.hpp>

using namespace swiglu;

namespace {

using layer = mlp<float, dims{.hidden = 64, .intermediate = 192}>;
constexpr std::size_t tokens = 10;
bool good = true;

void fill(std::span<float> values, unsigned seed) {
  for (float& v : values) v = 0.3f * (static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1);
}

/// Near enough for two ways to compute the same.
template <class First, class Second>
void expect(const char* what, const First& a, const Second& b) {
  double worst = a.rows() == b.rows() && a.cols() == b.cols() ? 0 : HUGE_VAL;
  for (std::size_t r = 0; worst < HUGE_VAL && r < a.rows(); ++r)
    for (std::size_t c = 0; c < a.cols(); ++c)
      worst = std::fmax(worst, std::fabs(static_cast<double>(a.data()[r * a.pitch() + c]) -
                                         static_cast<double>(b.data()[r * b.pitch() + c])));
  if (worst <= 1e-5) return;
  std::printf("%s: differs by %g\n", what, worst);
  good = false;
}

struct DLTensor {  // as in dlpack.h
  void* data;
  struct {
    std::int32_t device_type, device_id;
  } device;
  std::int32_t ndim;
  struct {
    std::uint8_t code, bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};

}  // namespace

int main() {
  layer::weights w;
  layer::gradients g, twice;
  layer::saved s{tokens};
  layer::workspace ws{tokens};
  tensor<float, dynamic, 64> x{tokens}, out{tokens}, again{tokens}, grad_out{tokens}, grad_x{tokens}, grad_x2{tokens};
  fill(w.gate.span(), 1), fill(w.up.span(), 2), fill(w.down.span(), 3), fill(x.span(), 4), fill(grad_out.span(), 5);
  layer::forward(x, w, s, ws, out);
  layer::backward(grad_out, x, w, s, ws, grad_x, g);

  {
    std::vector<float> values(x.span().begin(), x.span().end());
    std::vector<float> wide(tokens * 100);
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::size_t i = 0; i < 64; ++i) wide[t * 100 + i] = x(t, i);
    float* const pointer = wide.data();
    // [views]
    // Elements one after the other: a std::vector, a std::array, a std::span of the right size.
    const view<const float, dynamic, 64> from_span(values, {tokens});
    // A pointer; rows may lie further apart than they are long, here 100 elements.
    const view<const float, dynamic, 64> from_pointer(pointer, {tokens}, 100);
    layer::forward(from_pointer, w, s, ws, again);
    // [/views]
    expect("a pitched view", again, out);
    layer::forward(from_span, w, s, ws, again);
    expect("a view of a vector", again, out);
  }
  {
    std::int64_t shape[] = {2, 5, 64};
    const DLTensor tensor_of_theirs{x.data(), {1, 0}, 3, {2, 32, 1}, shape, nullptr, 0};
    // [dlpack]
    // A DLTensor, DLManagedTensor or DLManagedTensorVersioned: [batch, sequence, 64] on the CPU becomes [tokens, 64].
    const auto x_of_theirs = from_dlpack<view<const float, dynamic, 64>>(tensor_of_theirs);
    layer::forward(x_of_theirs, w, s, ws, again);
    // [/dlpack]
    expect("a DLPack tensor", again, out);
  }
  {
    const float *gate = w.gate.data(), *up = w.up.data(), *down = w.down.data();
    // [weights]
    // Weights that stay where they are: three views instead of layer::weights. Gradients likewise.
    const weights_view<const float, 64, 192> theirs{view<const float, 64, 192>(gate), view<const float, 64, 192>(up),
                                                    view<const float, 192, 64>(down)};
    layer::forward(x, theirs, s, ws, again);
    // [/weights]
    expect("borrowed weights", again, out);
  }
  {
    std::vector<float> gate_proj(64 * 192), up_proj(64 * 192), down_proj(64 * 192);
    evaluate(view<float, 192, 64>(gate_proj, {}) <<= transpose(w.gate));
    evaluate(view<float, 192, 64>(up_proj, {}) <<= transpose(w.up));
    evaluate(view<float, 64, 192>(down_proj, {}) <<= transpose(w.down));
    // [out_in]
    // torch.nn.Linear and most checkpoints keep weights as [outputs, inputs]. The layer takes them like that, where
    // they are, if its dims say so; gradients come back in the same layout.
    using linear = mlp<float, dims{.hidden = 64, .intermediate = 192, .layout = out_in}>;
    const weights_view<const float, 64, 192, out_in> loaded{view<const float, 192, 64>(gate_proj, {}),
                                                            view<const float, 192, 64>(up_proj, {}),
                                                            view<const float, 64, 192>(down_proj, {})};
    linear::saved kept{tokens};
    linear::workspace scratch{tokens};
    linear::gradients of_loaded;  // gate and up [192, 64], down [64, 192]
    linear::forward(x, loaded, kept, scratch, again);
    linear::backward(grad_out, x, loaded, kept, scratch, grad_x2, of_loaded);
    // [/out_in]
    expect("[outputs, inputs]", again, out);
    expect("grad_x of [outputs, inputs]", grad_x2, grad_x);
    tensor<float, 192, 64> g_gate;
    evaluate(g_gate <<= transpose(g.gate));
    expect("the gradient of gate_proj", of_loaded.gate, g_gate);
  }
  {
    // [packed]
    // Gate and up in one matrix: first all outputs of the one, then those of the other, or k of each by turns.
    using phi = mlp<float, dims{.hidden = 64, .intermediate = 192, .layout = out_in.gate_up()}>;
    phi::weights stacked;  // stacked.gate_up [384, 64], stacked.down [64, 192]
    using gpt_oss = mlp<float, dims{.hidden = 64, .intermediate = 192, .layout = in_out.interleaved(1)}>;
    gpt_oss::weights by_turns;  // by_turns.gate_up [64, 384]: gate up gate up ...
    evaluate(gate_of<in_out.interleaved(1)>(by_turns) <<= w.gate, up_of<in_out.interleaved(1)>(by_turns) <<= w.up);
    // [/packed]
    evaluate(by_turns.down <<= w.down);
    evaluate(stacked.w1() <<= transpose(w.gate), stacked.w3() <<= transpose(w.up));
    evaluate(stacked.down <<= transpose(w.down));
    phi::saved s1{tokens};
    phi::workspace ws1{tokens};
    phi::forward(x, stacked, s1, ws1, again);
    expect("packed weights", again, out);
    gpt_oss::saved s2{tokens};
    gpt_oss::workspace ws2{tokens};
    gpt_oss::forward(x, by_turns, s2, ws2, again);
    expect("interleaved weights", again, out);
  }
  {
    // [accumulate]
    // Micro-batches: the gradients of the first replace, those of the others are added.
    layer::backward(grad_out, x, w, s, ws, grad_x, overwrite(twice));
    layer::backward(grad_out, x, w, s, ws, grad_x, accumulate(twice));
    // [/accumulate]
    tensor<float, 64, 192> expected;
    evaluate(expected <<= 2 * g.gate);
    expect("two micro-batches", twice.gate, expected);
  }
  {
    auto& out_of_kernels = again;
    tensor<float, dynamic, 192> h1{tokens}, h3{tokens}, h{tokens}, g_h1{tokens}, g_h3{tokens};
    // [forward]
    auto gate = product<"h1">(x, w.gate);
    auto up = product<"h3">(x, w.up);
    evaluate(h1 <<= gate, h3 <<= up, h <<= silu(gate) * up);
    evaluate(out_of_kernels <<= product(h, w.down));
    // [/forward]
    expect("forward as kernels", out_of_kernels, out);
    layer::gradients by_kernels;
    // [backward]
    auto g_h = product<"g_h">(grad_out, transpose(w.down));  // exists in registers only
    evaluate(g_h1 <<= g_h * (h3 * silu_grad(h1)), g_h3 <<= g_h * silu(h1));
    evaluate(grad_x2 <<= product(g_h1, transpose(w.gate)) + product(g_h3, transpose(w.up)));
    evaluate(by_kernels.gate <<= product<"g_gate">(transpose(x), g_h1),
             by_kernels.up <<= product<"g_up">(transpose(x), g_h3));
    evaluate(by_kernels.down <<= product(transpose(h), grad_out));
    // [/backward]
    expect("grad_x as kernels", grad_x2, grad_x);
    expect("gradient of gate as kernels", by_kernels.gate, g.gate);
    expect("gradient of up as kernels", by_kernels.up, g.up);
    expect("gradient of down as kernels", by_kernels.down, g.down);
  }
  return good ? 0 : 1;
}

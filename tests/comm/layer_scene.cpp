// SPDX-License-Identifier: MIT
#include "comm/layer_scene.hpp"

#include <cstddef>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "comm/scenes.hpp"
#include "mlp/mesh.hpp"

namespace comm_test {

namespace {

template <class Tensor>
bool same_on_all(any_communicator& axis, const Tensor& t) {
  return same_text(axis, {reinterpret_cast<const char*>(t.data()), t.size() * sizeof(float)});
}

template <class Mesh>
std::string play(any_communicator& data, any_communicator& tensor, bool in_rank_order) {
  using layer = typename Mesh::layer;
  const auto d = static_cast<std::size_t>(data.rank()), t = static_cast<std::size_t>(tensor.rank());
  const swiglu::mesh axes{data, tensor};
  const Mesh m;
  complaints found;
  const auto complain = [&](const test::comparison& c, std::string_view what) {
    found.unless(static_cast<bool>(c), std::string(what) + ": " + c.text);
  };
  const auto step = [&](const auto& b) {
    typename layer::saved s(b.tokens());
    typename layer::workspace ws(b.tokens());
    test::results_of<layer> r(b.tokens());
    layer::forward(b.x, b.w, s, ws, r.out, axes);
    layer::backward(b.grad_out, b.x, b.w, s, ws, r.grad_x, r.grad, axes);
    found.unless(same_on_all(tensor, r.out) && same_on_all(tensor, r.grad_x), "other bits along the tensor axis");
    found.unless(same_on_all(data, r.grad.gate) && same_on_all(data, r.grad.up) && same_on_all(data, r.grad.down),
                 "other bits along the data axis");
    return r;
  };

  const auto mine = step(m.part(d, t));
  if (in_rank_order) complain(same_bits(mine, test::sums<Mesh>(m.terms()).at(d, t)), "the sum of the ranks' terms");

  const auto whole = test::step<typename Mesh::alone>(m.global);
  test::results_of<layer> due(Mesh::tokens);
  swiglu::shard_batch(typename Mesh::global_view(whole.out.data()), d, Mesh::data_ranks, due.out.view());
  swiglu::shard_batch(typename Mesh::global_view(whole.grad_x.data()), d, Mesh::data_ranks, due.grad_x.view());
  swiglu::shard_weights(whole.grad, t, due.grad);
  const auto close = [](const auto& x, const auto& y) { return test::near_in_norm(x, test::to_matrix(y), 1e-5); };
  complain(each_result(mine, due, close), "the layer on one rank");

  if (Mesh::data_ranks == 2) {
    auto some = m.part(1, t);
    auto none = test::batch_of<layer>(0);
    none.w = some.w;
    const auto r = step(d == 0 ? none : some);
    const auto terms = test::step<layer>(some);
    complain(close(r.grad.gate, terms.grad.gate), "gradients of a batch that one data rank has nothing of");
    complain(close(r.grad.down, terms.grad.down), "gradients of a batch that one data rank has nothing of");
  }
  return found.text();
}

}  // namespace

std::string layer_on_mesh(any_communicator data, any_communicator tensor, bool in_rank_order) {
  const auto is = [&](int d, int t) { return data.size() == d && tensor.size() == t; };
  using test::fused;
  if (is(1, 1)) return play<test::meshed<fused, 1, 1>>(data, tensor, in_rank_order);
  if (is(2, 1)) return play<test::meshed<fused, 2, 1>>(data, tensor, in_rank_order);
  if (is(1, 2)) return play<test::meshed<fused, 1, 2>>(data, tensor, in_rank_order);
  if (is(2, 2)) return play<test::meshed<fused, 2, 2>>(data, tensor, in_rank_order);
  if (is(4, 1)) return play<test::meshed<fused, 4, 1>>(data, tensor, in_rank_order);
  if (is(1, 4)) return play<test::meshed<fused, 1, 4>>(data, tensor, in_rank_order);
  throw std::invalid_argument("layer_on_mesh: no such mesh");
}

}  // namespace comm_test

// SPDX-License-Identifier: MIT
#pragma once

// The layer on a mesh of any transport, compiled once for all of them.

#include <memory>
#include <span>
#include <string>

#include <swiglu/comm/collectives.hpp>

namespace comm_test {

class any_request {
 public:
  template <class R>
  explicit any_request(R request) : model_(std::make_unique<model<R>>(std::move(request))) {}
  void wait() { model_->wait(); }
  bool test() { return model_->test(); }

 private:
  struct base {
    virtual ~base() = default;
    virtual void wait() = 0;
    virtual bool test() = 0;
  };
  template <class R>
  struct model final : base {
    explicit model(R r) : request(std::move(r)) {}
    void wait() override { request.wait(); }
    bool test() override { return request.test(); }
    R request;
  };
  std::unique_ptr<base> model_;
};

/// Refers to a communicator whose type is known at run time only: sums of floats, started or not.
class any_communicator {
 public:
  template <class C>
  explicit any_communicator(C& communicator) : model_(std::make_unique<model<C>>(communicator)) {}
  int rank() const { return model_->rank(); }
  int size() const { return model_->size(); }
  void all_reduce(std::span<float> buffer) { model_->all_reduce(buffer); }
  any_request iall_reduce(std::span<float> buffer) { return model_->start(buffer); }

 private:
  struct base {
    virtual ~base() = default;
    virtual int rank() = 0;
    virtual int size() = 0;
    virtual void all_reduce(std::span<float>) = 0;
    virtual any_request start(std::span<float>) = 0;
  };
  template <class C>
  struct model final : base {
    explicit model(C& communicator) : c(communicator) {}
    int rank() override { return c.rank(); }
    int size() override { return c.size(); }
    void all_reduce(std::span<float> buffer) override { c.all_reduce(buffer); }
    any_request start(std::span<float> buffer) override {
      return any_request(swiglu::start_all_reduce<float>(c, buffer));
    }
    C& c;
  };
  std::unique_ptr<base> model_;
};

/// Forward and backward on a mesh of at most four ranks, played by each of them: the results agree with those of the
/// layer on one rank; `in_rank_order`, they are to the bit the sums of what the ranks compute; and all ranks that
/// should hold the same do, to the bit. With two data ranks, also a batch of which one of them has nothing. Returns
/// what this rank found wrong.
std::string layer_on_mesh(any_communicator data, any_communicator tensor, bool in_rank_order);

}  // namespace comm_test

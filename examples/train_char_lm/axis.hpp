// SPDX-License-Identifier: MIT
#pragma once

// A communicator whose type is known when the program runs: so the model and its training are compiled once, whatever
// carries their sums.

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <swiglu/comm/collectives.hpp>

namespace char_lm {

class axis {
 public:
  /// Refers to a communicator of floats and doubles.
  template <class C>
  explicit axis(C& communicator) : ends_(std::make_unique<end_of<C>>(communicator)) {}

  int rank() const { return ends_->rank(); }
  int size() const { return ends_->size(); }
  void all_reduce(std::span<float> buffer) { ends_->all_reduce(buffer); }
  void all_reduce(std::span<double> buffer) { ends_->all_reduce(buffer); }
  void all_reduce(std::span<const std::span<float>> buffers, std::span<const std::string_view> names = {}) {
    ends_->all_reduce(buffers, names);
  }

  class request {
   public:
    template <class R>
    explicit request(R started) : started_(std::make_unique<started_of<R>>(std::move(started))) {}
    void wait() { started_->wait(); }
    bool test() { return started_->test(); }

   private:
    struct any_started {
      virtual ~any_started() = default;
      virtual void wait() = 0;
      virtual bool test() = 0;
    };
    template <class R>
    struct started_of final : any_started {
      explicit started_of(R r) : started(std::move(r)) {}
      void wait() override { started.wait(); }
      bool test() override { return started.test(); }
      R started;
    };
    std::unique_ptr<any_started> started_;
  };
  request iall_reduce(std::span<float> buffer, std::string_view name = {}) { return ends_->start(buffer, name); }

 private:
  struct any_end {
    virtual ~any_end() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual void all_reduce(std::span<float>) = 0;
    virtual void all_reduce(std::span<double>) = 0;
    virtual void all_reduce(std::span<const std::span<float>>, std::span<const std::string_view>) = 0;
    virtual request start(std::span<float>, std::string_view) = 0;
  };
  template <class C>
  struct end_of final : any_end {
    explicit end_of(C& communicator) : c(communicator) {}
    int rank() const override { return c.rank(); }
    int size() const override { return c.size(); }
    void all_reduce(std::span<float> buffer) override { c.all_reduce(buffer); }
    void all_reduce(std::span<double> buffer) override { c.all_reduce(buffer); }
    void all_reduce(std::span<const std::span<float>> buffers, std::span<const std::string_view> names) override {
      swiglu::all_reduce<float>(c, buffers, names);
    }
    request start(std::span<float> buffer, std::string_view name) override {
      return request(swiglu::start_all_reduce<float>(c, buffer, name));
    }
    C& c;
  };
  std::unique_ptr<any_end> ends_;
};

}  // namespace char_lm

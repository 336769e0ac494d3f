// SPDX-License-Identifier: MIT
#pragma once

// Training, as every rank of the mesh does it. The batch of a step follows from (seed, step) and is cut over the data
// axis; the loss is the mean over the whole batch, whatever the mesh.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <swiglu/mlp.hpp>

#include "adamw.hpp"
#include "corpus.hpp"
#include "job.hpp"
#include "model.hpp"
#include "random.hpp"
#include "timed.hpp"

namespace char_lm {

/// One rank.
template <swiglu::real T, model_shape Shape, std::size_t TensorParallel, class Axes>
class trainer {
 public:
  /// `communication`: where the communicators of `axes` add up their time, if they do.
  trainer(const training_job<T>& job, const Axes& axes, const seconds& communication)
      : job_(job), axes_(axes), communication_(communication), model_(alphabet(), capacity()), optimiser_(alphabet()) {
    const auto tensor_rank = static_cast<std::size_t>(axes.tensor.rank());
    parameters<T, Shape, 1> whole(alphabet());
    const auto load = [&](std::size_t section, auto& to) {
      unflatten((*job.resume)[section], whole);
      shard(whole, tensor_rank, to);
    };
    if (job.resume != nullptr) {
      load(0, model_.weights);
      load(1, optimiser_.first);
      load(2, optimiser_.second);
    } else {
      initialise(whole, job.how.seed);
      shard(whole, tensor_rank, model_.weights);
    }
  }

  void run() {
    for (std::uint64_t step = job_.first_step; step < job_.last_step; ++step) {
      step_report report = train(step);
      const bool last = report.step == job_.last_step;
      if (last || report.step % job_.report_every == 0) report.validation = validate();
      if (root() && job_.on_step) job_.on_step(report);
      if (last || (job_.checkpoint_every > 0 && report.step % job_.checkpoint_every == 0)) save(report.step);
    }
    if (axes_.data.rank() == 0 && job_.sample > 0) sample();
  }

 private:
  // Contexts and what follows them.
  struct examples {
    std::vector<symbol> contexts, targets;

    void clear() {
      contexts.clear();
      targets.clear();
    }
    void add(const text& from, std::size_t at, symbol before_file) {
      contexts.resize(contexts.size() + Shape.context);
      from.context(at, before_file, std::span(contexts).last(Shape.context));
      targets.push_back(from[at]);
    }
  };

  std::size_t alphabet() const { return job_.of.alphabet.size(); }
  bool root() const { return axes_.rank() == 0; }
  std::size_t capacity() const {
    return swiglu::ceil_div(static_cast<std::size_t>(job_.how.batch), static_cast<std::size_t>(axes_.data.size()));
  }
  /// Of n things, data rank r has those from r n / ranks on.
  std::size_t share(std::size_t n, int data_rank) const {
    return n * static_cast<std::size_t>(data_rank) / static_cast<std::size_t>(axes_.data.size());
  }

  step_report train(std::uint64_t step) {
    const auto start = std::chrono::steady_clock::now();
    const seconds communicated = communication_;

    const std::size_t batch = job_.how.batch;
    const std::size_t first = share(batch, axes_.data.rank()), last = share(batch, axes_.data.rank() + 1);
    random_stream random(job_.how.seed, random_stream::purpose::batch, step);
    batch_.clear();
    for (std::size_t i = 0; i < batch; ++i) {  // every rank draws the whole batch, and takes its share
      const std::size_t at = random.below(job_.of.training.size());
      if (i >= first && i < last) batch_.add(job_.of.training, at, job_.of.line_end);
    }

    const logits_view<T> logits = model_.forward(batch_.contexts, axes_);
    double loss = cross_entropy(logits, std::span<const symbol>(batch_.targets));
    // The one place where a sum becomes a mean: from here on everything is added up, over rows and over ranks.
    const double mean = 1 / static_cast<double>(batch);
    cross_entropy_backward(logits, std::span<const symbol>(batch_.targets), static_cast<T>(mean));
    model_.backward(batch_.contexts, logits, axes_);
    axes_.data.all_reduce(std::span<double>(&loss, 1));

    const double rate = learning_rate(job_.how.rate, step, job_.how.steps);
    const double norm = global_norm(model_.gradients, axes_.tensor);
    // The same on every rank, so all of them throw: before the weights, and with them a checkpoint, are spoilt.
    if (!std::isfinite(loss) || !std::isfinite(norm))
      throw std::runtime_error("step " + std::to_string(step + 1) +
                               ": the loss or its gradient is no longer a number; " + "a lower learning rate may help");
    const double scale = norm > job_.how.clip ? job_.how.clip / norm : 1;
    optimiser_.update(model_.weights, model_.gradients, step, rate, job_.how.decay, scale);

    return {.step = step + 1,
            .train = bits(loss * mean),
            .rate = rate,
            .time = std::chrono::steady_clock::now() - start,
            .communication = communication_ - communicated};
  }

  /// Bits per character of the whole validation text.
  double validate() {
    const text& from = job_.of.validation;
    const std::size_t last = share(from.size(), axes_.data.rank() + 1);
    double loss = 0;
    for (std::size_t at = share(from.size(), axes_.data.rank()); at < last;) {
      batch_.clear();
      for (; at < last && batch_.targets.size() < capacity(); ++at) batch_.add(from, at, job_.of.line_end);
      loss += cross_entropy(model_.forward(batch_.contexts, axes_), std::span<const symbol>(batch_.targets));
    }
    axes_.data.all_reduce(std::span<double>(&loss, 1));
    return bits(loss / static_cast<double>(from.size()));
  }

  /// The ranks of the first row of the mesh gather the tensors.
  void save(std::uint64_t step) {
    if (!job_.on_checkpoint || axes_.data.rank() != 0) return;
    snapshot<T> state;
    std::size_t section = 0;
    for (const auto* tensors : {&model_.weights, &optimiser_.first, &optimiser_.second}) {
      auto whole = gather(*tensors, axes_.tensor);
      state[section++] = flatten(whole);
    }
    if (root()) job_.on_checkpoint(step, std::move(state));
  }

  /// Text from nothing, as a file begins; the ranks of the first row of the mesh all draw the same.
  void sample() {
    constexpr double temperature = 0.8;
    random_stream random(job_.how.seed, random_stream::purpose::sample, 0);
    std::vector<symbol> context(Shape.context, job_.of.line_end);
    std::string text;
    for (std::uint64_t i = 0; i < job_.sample; ++i) {
      const logits_view<T> logits = model_.forward(context, axes_);
      const std::span<T> p(logits.data(), logits.cols());
      for (T& logit : p) logit = static_cast<T>(static_cast<double>(logit) / temperature);
      softmax(p);
      double left = random.uniform();
      std::size_t drawn = 0;
      while (drawn + 1 < p.size() && (left -= static_cast<double>(p[drawn])) >= 0) ++drawn;
      text.push_back(job_.of.alphabet[drawn]);
      std::shift_left(context.begin(), context.end(), 1);
      context.back() = static_cast<symbol>(drawn);
    }
    if (root() && job_.on_sample) job_.on_sample(text);
  }

  static double bits(double nats) { return nats / std::numbers::ln2; }

  const training_job<T>& job_;
  Axes axes_;
  const seconds& communication_;
  model<T, Shape, TensorParallel> model_;
  adamw<parameters<T, Shape, TensorParallel>> optimiser_;
  examples batch_;
};

}  // namespace char_lm

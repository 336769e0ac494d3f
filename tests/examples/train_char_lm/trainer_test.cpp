// SPDX-License-Identifier: MIT
#include "trainer.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <swiglu/comm/launch.hpp>

using namespace char_lm;

namespace {

constexpr model_shape tiny{.context = 3, .width = 4, .intermediate = 8, .blocks = 2};
constexpr std::uint64_t steps = 12;

corpus proverbs() {
  corpus of;
  of.alphabet = "\n abcdefghijklmnopqrstuvwxyz";
  const auto symbols = [&](const std::string& words) {
    std::vector<symbol> numbers;
    for (const char c : words) numbers.push_back(static_cast<symbol>(of.alphabet.find(c)));
    return numbers;
  };
  of.training.append("a", symbols("a stitch in time saves nine\nmany hands make light work\n"));
  of.training.append("b", symbols("the early bird catches the worm\n"));
  of.validation.append("c", symbols("a rolling stone gathers no moss\n"));
  return of;
}

struct run {
  std::vector<double> losses, validations;
  snapshot<double> state;
  std::string sample;
  std::uint64_t checkpoints = 0;
};

template <std::size_t TensorParallel>
run trained(const corpus& of, int data_ranks, std::uint64_t first, std::uint64_t last,
            const snapshot<double>* resume = nullptr) {
  run result;
  training_job<double> job{.of = of, .how = {}, .first_step = first, .last_step = last};
  job.how.steps = steps;
  job.how.batch = 10;
  job.how.rate = 0.01;
  job.how.clip = 0.5;  // early steps exceed it
  job.report_every = 2;
  job.checkpoint_every = 4;
  job.sample = 20;
  job.resume = resume;
  job.on_step = [&](const step_report& step) {
    result.losses.push_back(step.train);
    if (step.validation) result.validations.push_back(*step.validation);
  };
  job.on_checkpoint = [&](std::uint64_t, snapshot<double> state) {
    result.state = std::move(state);
    ++result.checkpoints;
  };
  job.on_sample = [&](const std::string& text) { result.sample = text; };
  swiglu::run_ranks(data_ranks, static_cast<int>(TensorParallel), [&](swiglu::thread_mesh& axes) {
    seconds communication{};
    timed data_axis(axes.data, communication), tensor_axis(axes.tensor, communication);
    swiglu::mesh timed_axes(data_axis, tensor_axis);
    trainer<double, tiny, TensorParallel, decltype(timed_axes)>(job, timed_axes, communication).run();
  });
  return result;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

}  // namespace

TEST_CASE("training learns, and says so at the promised steps") {
  const corpus of = proverbs();
  const run r = trained<1>(of, 1, 0, steps);
  CHECK(r.losses.size() == steps);
  CHECK(r.validations.size() == steps / 2);
  CHECK(r.checkpoints == steps / 4);
  CHECK(r.sample.size() == 20);
  CHECK(r.losses.front() == doctest::Approx(std::log2(of.alphabet.size())).epsilon(0.1));
  CHECK(r.validations.back() < r.validations.front());
}

TEST_CASE("the same curve on every mesh, to rounding") {
  const corpus of = proverbs();
  const run one = trained<1>(of, 1, 0, steps);
  const auto compare = [&](const run& other) {
    CHECK(distance(one.losses, other.losses) < 1e-12);
    CHECK(distance(one.validations, other.validations) < 1e-12);
    for (std::size_t i = 0; i < 3; ++i) CHECK(distance(one.state[i], other.state[i]) < 1e-10);
    CHECK(one.sample == other.sample);
  };
  compare(trained<1>(of, 2, 0, steps));
  compare(trained<2>(of, 1, 0, steps));
  compare(trained<2>(of, 2, 0, steps));
  compare(trained<1>(of, 3, 0, steps));  // 10 rows: not the same number on every rank
}

TEST_CASE("two times N steps are N steps, a stop, and N steps more, to the last bit") {
  const corpus of = proverbs();
  const run whole = trained<2>(of, 2, 0, steps), half = trained<2>(of, 2, 0, steps / 2);
  const run rest = trained<2>(of, 2, steps / 2, steps, &half.state);
  CHECK(rest.state == whole.state);
  std::vector<double> losses = half.losses;
  losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
  CHECK(losses == whole.losses);
  CHECK(rest.sample == whole.sample);
}

TEST_CASE("a run goes on on another mesh") {
  const corpus of = proverbs();
  const run whole = trained<1>(of, 1, 0, steps), half = trained<2>(of, 2, 0, steps / 2);
  const run rest = trained<1>(of, 1, steps / 2, steps, &half.state);
  for (std::size_t i = 0; i < 3; ++i) CHECK(distance(rest.state[i], whole.state[i]) < 1e-10);
}

TEST_CASE("a run that has lost its numbers ends with an error, and without a checkpoint of them") {
  const corpus of = proverbs();
  run start = trained<1>(of, 1, 0, 2);
  start.state[0][0] = std::nan("");
  CHECK_THROWS_WITH_AS(trained<1>(of, 2, 2, steps, &start.state), doctest::Contains("no longer a number"),
                       std::runtime_error);
}

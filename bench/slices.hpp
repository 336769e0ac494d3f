// SPDX-License-Identifier: MIT
#pragma once

// Time, cut into slices, and what the cores could have done in each. The clock of a core changes within a second with
// what it and its neighbours do, so that a peak measured before and after a run is not the peak of the run; and on a
// shared machine somebody else's thread on the other half of the same core slows the work down for a fraction of a
// millisecond at a time, the loads of a micro-kernel more than the multiply-adds of a probe. Hence:
//
//     slice   a millisecond of work, or a step, or a kernel of a long step; after each a probe of the peak, short
//     bursts
//             of a quarter of a millisecond
//     peak    of a slice: the mean of what the best burst before it and the best burst after it show, of those within
//             some milliseconds. The best, since an interruption only ever makes a burst slower; the mean, since the
//             clock may change anywhere in a long slice
//     share   of a run: that of the best tenth of its slices (of its steps, where these take several slices), since
//             interruptions only ever make a slice longer
//
// Work on one thread is timed by the processor time of the process, so that neither other processes that take the core
// for a while nor threads that are started in secret change the figure; work on several threads by the clock on the
// wall.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "bandwidth.hpp"
#include "clock.hpp"
#include "peak.hpp"

namespace bench {

/// A stretch of time, and what could have been done in it: FLOPs, and bytes if they are probed too.
struct stretch {
  double seconds = 0, flops = 0, bytes = 0;
};

/// The value below which a share of `values` lies.
inline double quantile(std::vector<double> values, double share) {
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

/// Measures work on `threads` threads; `bandwidth()` gives bytes a second.
class slices {
 public:
  explicit slices(std::size_t threads, std::function<double()> bandwidth = {})
      : threads_(threads), bandwidth_(std::move(bandwidth)) {}

  /// Forgets everything, and probes.
  void reset() {
    probes_.clear(), slices_.clear();
    batches_ = 0;
    probe(4);
  }
  /// How long a slice should be: the shorter, the better interruptions are told apart, but a team has to be woken.
  double length() const { return threads_ == 1 && !bandwidth_ ? 1e-3 : 5e-3; }

  /// About how long a step takes; 0 as long as nobody has set it.
  double& seconds_of_step() { return step_; }

  /// A batch of work begins, and with it a slice.
  void begin() {
    if (seconds() - probes_.back().at > 1e-3) probe(4);  // somebody did other things since the last slice
    open();
  }
  /// It ends. Returns the seconds since begin(), without those that pause() spent on probes.
  double end() {
    close();
    ++batches_;
    return std::exchange(batch_seconds_, 0);
  }
  /// Between two parts of a step that takes longer than a slice should: ends the slice and begins another, if it is
  /// time to.
  void pause() {
    if (now() - begin_ < 5e-3) return;
    close();
    open();
  }
  bool probes_bandwidth() const { return bandwidth_ != nullptr; }

  /// What could have been done in the time of a batch, the best tenth of them.
  stretch best() {
    probe(4);
    std::vector<stretch> batches(batches_);
    for (const slice& s : slices_) {
      stretch& batch = batches[s.batch];
      batch.seconds += s.time;
      batch.flops += s.time * peak_of(s, &probed::flops);
      batch.bytes += s.time * peak_of(s, &probed::bytes);
    }
    const auto least = [&](double stretch::*what) {
      std::vector<double> values;
      for (const stretch& b : batches) values.push_back(b.*what);
      return quantile(std::move(values), 0.1);
    };
    return {least(&stretch::seconds), least(&stretch::flops), least(&stretch::bytes)};
  }

  /// The one that a step in progress may pause, or null.
  static slices*& current() {
    static slices* instance = nullptr;
    return instance;
  }

 private:
  struct probed {
    double at, flops, bytes;
  };
  struct slice {
    std::size_t batch, probes;  // and the number of probes before it
    double begin, end, time;    // the first two on the wall
  };

  double now() const { return threads_ == 1 ? process_seconds() : seconds(); }
  void probe(std::size_t bursts) {
    const double flops = peak_flops<float>(threads_, bursts), bytes = bandwidth_ ? bandwidth_() : 0;
    probes_.push_back({seconds(), flops, bytes});
  }
  void open() {
    begin_on_wall_ = seconds();
    begin_ = now();
  }
  void close() {
    const double time = now() - begin_, end = seconds();
    slices_.push_back({batches_, probes_.size(), begin_on_wall_, end, time});
    batch_seconds_ += time;
    probe(threads_ == 1 && time < 2e-3 ? 1 : 4);
  }
  double peak_of(const slice& s, double probed::*what) const {
    constexpr double window = 5e-3;
    double before = 0, after = 0;
    for (std::size_t i = s.probes; i-- > 0;) {
      before = std::max(before, probes_[i].*what);
      if (probes_[i].at < s.begin - window) break;
    }
    for (std::size_t i = s.probes; i < probes_.size(); ++i) {
      after = std::max(after, probes_[i].*what);
      if (probes_[i].at > s.end + window) break;
    }
    return (before + after) / 2;
  }

  std::size_t threads_;
  std::function<double()> bandwidth_;
  std::vector<probed> probes_;
  std::vector<slice> slices_;
  std::size_t batches_ = 0;
  double step_ = 0, begin_on_wall_ = 0, begin_ = 0, batch_seconds_ = 0;
};

/// An executor that lets a long step be cut into slices between its kernels.
template <class X>
class paused {
 public:
  explicit paused(X threads) : threads_(threads) {}
  std::size_t threads() const { return threads_.threads(); }
  template <class F>
  void run(std::size_t n, const F& f) {
    threads_.run(n, f);
    if (slices::current() != nullptr) slices::current()->pause();
  }

 private:
  X threads_;
};

/// Runs step() as often as `state` wants, short ones many times a slice, so that the clock costs nothing; the time
/// reported is the mean of one. For UseManualTime. Returns what could have been done in the time of a step.
template <class Step>
stretch run_in_slices(benchmark::State& state, slices& clock, Step step) {
  double& one = clock.seconds_of_step();
  if (one == 0) {
    const auto timed = [&](std::size_t steps) {
      const double begin = seconds();
      for (std::size_t i = 0; i < steps; ++i) {
        step();
        benchmark::ClobberMemory();
      }
      return (seconds() - begin) / static_cast<double>(steps);
    };
    one = timed(1);  // which touches all memory
    for (std::size_t steps = 2; one * static_cast<double>(steps) < clock.length() / 4; steps *= 2) one = timed(steps);
  }
  const auto batch = static_cast<benchmark::IterationCount>(
      std::clamp(clock.length() / one, 1.0, static_cast<double>(state.max_iterations)));

  clock.reset();
  if (one > 10e-3) slices::current() = &clock;
  while (state.KeepRunningBatch(batch)) {
    clock.begin();
    for (benchmark::IterationCount i = 0; i < batch; ++i) {
      step();
      benchmark::ClobberMemory();
    }
    state.SetIterationTime(clock.end());
  }
  slices::current() = nullptr;
  const stretch possible = clock.best();
  const auto steps = static_cast<double>(batch);
  return {possible.seconds / steps, possible.flops / steps, possible.bytes / steps};
}

}  // namespace bench

// SPDX-License-Identifier: MIT
#include "progress.hpp"

#include <array>
#include <cstdio>

namespace char_lm {

namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 200> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

}  // namespace

progress::progress(std::ostream& out, int columns, std::uint64_t steps, double characters_per_step,
                   double flops_per_step)
    : out_(out), columns_(columns), steps_(steps), characters_(characters_per_step), flops_(flops_per_step) {}

void progress::operator()(const step_report& step) {
  if (!started_) out_ << "      step    train    valid      rate   char/s  GFLOP/s  comm\n";
  started_ = true;
  train_ += step.train;
  count_ += 1;
  time_ += step.time;
  communication_ += step.communication;
  const bool stands = step.validation.has_value();
  if (stands) validation_ = step.validation;

  const auto now = std::chrono::steady_clock::now();
  if (!stands && (columns_ == 0 || now - drawn_ < std::chrono::milliseconds(100))) return;
  drawn_ = now;
  std::string line = row(step);
  if (columns_ > 0) {
    // A line that wraps could not be redrawn.
    if (line.size() >= static_cast<std::size_t>(columns_)) line.resize(static_cast<std::size_t>(columns_) - 1);
    out_ << '\r' << line << "\x1b[K";
  } else {
    out_ << line;
  }
  if (stands) {
    out_ << '\n';
    train_ = count_ = 0;
    time_ = communication_ = seconds{};
  }
  out_.flush();
}

std::string progress::row(const step_report& step) const {
  const double per_second = time_.count() > 0 ? count_ / time_.count() : 0;
  const double share = time_.count() > 0 ? communication_ / time_ : 0;
  const std::string of = std::to_string(step.step) + "/" + std::to_string(steps_);
  const std::string validation = validation_ ? formatted("%.4f", *validation_) : "";
  return formatted("%10s %8.4f %8s %9.2e %8.0f %8.1f %4.0f%%", of.c_str(), train_ / count_, validation.c_str(),
                   step.rate, per_second * characters_, per_second * flops_ / 1e9, 100 * share);
}

}  // namespace char_lm

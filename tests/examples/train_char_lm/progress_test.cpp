// SPDX-License-Identifier: MIT
#include "progress.hpp"

#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>

using namespace char_lm;

namespace {

step_report step(std::uint64_t number, double train) {
  return {.step = number, .train = train, .rate = 0.001, .time = seconds(0.5), .communication = seconds(0.125)};
}

}  // namespace

TEST_CASE("into a pipe only rows that stand are printed, each the mean of its steps") {
  std::ostringstream out;
  progress table(out, 0, 4, 100, 2e9);
  table(step(1, 5));
  table(step(2, 3));
  step_report reported = step(3, 1);
  reported.validation = 2.5;
  table(reported);
  table(step(4, 9));
  CHECK(out.str() ==
        "      step    train    valid      rate   char/s  GFLOP/s  comm\n"
        "       3/4   3.0000   2.5000  1.00e-03      200      4.0   25%\n");
}

TEST_CASE("on a terminal the row is redrawn until it stands") {
  std::ostringstream out;
  progress table(out, 80, 4, 100, 2e9);
  table(step(1, 5));
  step_report reported = step(2, 3);
  reported.validation = 2.5;
  table(reported);
  table(step(3, 1));
  CHECK(out.str() ==
        "      step    train    valid      rate   char/s  GFLOP/s  comm\n"
        "\r       1/4   5.0000           1.00e-03      200      4.0   25%\x1b[K"
        "\r       2/4   4.0000   2.5000  1.00e-03      200      4.0   25%\x1b[K\n");
}

TEST_CASE("a row never wraps on a narrow terminal") {
  std::ostringstream out;
  progress table(out, 20, 4, 100, 2e9);
  table(step(1, 5));
  CHECK(out.str().ends_with("\r       1/4   5.0000\x1b[K"));
}

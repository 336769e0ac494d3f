// SPDX-License-Identifier: MIT

// The seed program against the golden values: every step of every schedule on every device.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../examples/mlp2/seed.hpp"
#include "mlp/step.hpp"

namespace {

namespace files = std::filesystem;
using test::fused;
using test::recompute;
using test::tally;
using test::xla;

constexpr double tolerance = 2e-6;
const std::string directory = SWIGLU_TESTS_DIR "/golden/mesh2x2";

template <class Devices>
std::set<std::string> wrong_steps(const Devices& devices) {
  std::set<std::string> wrong;
  for (std::size_t d = 0; d < devices.size(); ++d)
    for (const auto steps : {&seed::device::forward, &seed::device::backward})
      for (const seed::step& s : devices[d].*steps)
        if (!(s.difference <= tolerance)) wrong.insert("device " + std::to_string(d) + " " + s.operation);
  return wrong;
}

std::vector<std::string> names(const recorded_call& call) {
  std::vector<std::string> n;
  for (const auto& buffer : call.buffers) n.push_back(buffer.name);
  return n;
}

bool same_sums(const recorded_call& a, const recorded_call& b) {
  return std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), b.buffers.end(),
                    [](const auto& x, const auto& y) {
                      return std::equal(x.after.begin(), x.after.end(), y.after.begin(), y.after.end(),
                                        [](float p, float q) { return test::same_bits(p, q); });
                    });
}

/// A copy of the golden files that is gone afterwards, in which one element may be wrong.
class golden_copy {
 public:
  golden_copy() {
    for (int n = 0;; ++n) {
      path_ = files::temp_directory_path() / ("swiglu_golden_" + std::to_string(n));
      if (files::create_directory(path_)) break;  // else another test program has it
    }
    files::copy(directory, path_);
  }
  golden_copy(const golden_copy&) = delete;
  golden_copy& operator=(const golden_copy&) = delete;
  ~golden_copy() {
    std::error_code ignored;
    files::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }

  /// Moves element `nth` of a float64 array by `by` times the array's norm, runs f, and puts the element back.
  template <class F>
  void with_error(const std::string& name, std::size_t nth, double by, F f) {
    const files::path file = path_ / (name + ".npy");
    const std::vector<double> values = read_npy(file.string());
    double squares = 0;
    for (const double v : values) squares += v * v;
    write(file, values.size(), nth, values.at(nth) + by * std::sqrt(squares));
    f();
    write(file, values.size(), nth, values.at(nth));
  }

 private:
  static void write(const files::path& file, std::size_t count, std::size_t nth, double value) {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(-static_cast<std::streamoff>((count - nth) * sizeof(double)), std::ios::end);
    out.write(reinterpret_cast<const char*>(&value), sizeof value);
    if (!out.flush()) throw std::runtime_error(file.string() + ": cannot be written");
  }
  files::path path_;
};

}  // namespace

TEST_CASE_TEMPLATE("every value of the program, on every device", S, fused, recompute, xla) {
  const auto devices = seed::run<S::value>(seed::golden(directory));
  tally steps;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    CHECK(devices[d].forward.size() == 5);
    CHECK(devices[d].backward.size() == 14);
    for (const auto which : {&seed::device::forward, &seed::device::backward})
      for (const seed::step& s : devices[d].*which)
        steps(s.difference <= tolerance, "device", d, s.operation, s.value, s.difference);
  }
  CHECK(steps);
}

TEST_CASE_TEMPLATE("one all-reduce on each axis, with the program's bundles", S, fused, recompute, xla) {
  const auto devices = seed::run<S::value>(seed::golden(directory));
  const std::size_t weight = seed::hidden * seed::intermediate / seed::tensor_ranks;
  for (const auto& device : devices) {
    REQUIRE(device.data_calls.size() == 1);
    REQUIRE(device.tensor_calls.size() == 1);  // and so none for `out`, which stays unreduced
    CHECK(names(device.data_calls[0]) == std::vector<std::string>{"gate", "up", "down"});
    if (S::per_operation)
      CHECK(names(device.tensor_calls[0]) == std::vector<std::string>{"g_x_h3", "g_x_h1"});
    else
      CHECK(names(device.tensor_calls[0]) == std::vector<std::string>{"grad_x"});
    for (const auto& buffer : device.data_calls[0].buffers) CHECK(buffer.before.size() == weight);
    for (const auto& buffer : device.tensor_calls[0].buffers)
      CHECK(buffer.before.size() == seed::tokens * seed::hidden);
  }
  // Groups {0, 2}, {1, 3} of the data axis and {0, 1}, {2, 3} of the tensor axis: the same sums within, others between.
  CHECK(same_sums(devices[0].data_calls[0], devices[2].data_calls[0]));
  CHECK(same_sums(devices[1].data_calls[0], devices[3].data_calls[0]));
  CHECK_FALSE(same_sums(devices[0].data_calls[0], devices[1].data_calls[0]));
  CHECK(same_sums(devices[0].tensor_calls[0], devices[1].tensor_calls[0]));
  CHECK(same_sums(devices[2].tensor_calls[0], devices[3].tensor_calls[0]));
  CHECK_FALSE(same_sums(devices[0].tensor_calls[0], devices[2].tensor_calls[0]));
}

TEST_CASE_TEMPLATE("one wrong element of one golden file is noticed, and only where it is compared", S, fused, xla) {
  golden_copy copy;
  REQUIRE(wrong_steps(seed::run<S::value>(seed::golden(copy.path()))).empty());

  const struct {
    const char* name;
    std::vector<std::string> steps;
  } values[] = {{"h1", {"%dot.12"}},
                {"h3", {"%dot.13"}},
                {"sigmoid", {"%add_divide_fusion"}},
                {"h", {"%multiply_bitcast_fusion.1"}},
                {"out", {"%dot.15"}},
                {"g_h", {"%dot.16"}},
                {"g_h1", {"%add_bitcast_fusion", "%copy_bitcast_fusion.2"}},
                {"g_h3", {"%multiply_bitcast_fusion", "%copy_bitcast_fusion.1"}},
                {"g_x_h1", {"%dot.20"}},
                {"g_x_h3", {"%dot.18"}},
                {"g_w1", {"%dot.27"}},
                {"g_w3", {"%dot.28"}},
                {"g_w2", {"%dot.29"}},
                {"grad_w1", {"%all-reduce.1"}},
                {"grad_w3", {"%all-reduce.1"}},
                {"grad_w2", {"%all-reduce.1"}},
                {"grad_x", {"%wrapped_add"}}};
  tally noticed;
  std::size_t device = 0;
  for (const auto& v : values) {
    const std::string name(v.name);
    const std::size_t d = device++ % 4, group = d / 2 * 2;
    std::set<std::string> expected;
    for (const std::string& step : v.steps) expected.insert("device " + std::to_string(d) + " " + step);
    // The branches of grad_x are summed over the tensor axis in one schedule, their sum in the other.
    if (S::per_operation && name.starts_with("g_x_"))
      for (const std::size_t member : test::sizes{group, group + 1})
        expected.insert("device " + std::to_string(member) + " %all-reduce");
    if (!S::per_operation && name == "grad_x") expected.insert("device " + std::to_string(d) + " %all-reduce");
    for (const std::size_t element : test::sizes{std::size_t{0}, std::size_t{100}, std::size_t{255}})
      copy.with_error("rank" + std::to_string(d) + "_" + name, element, 5 * tolerance, [&] {
        const auto wrong = wrong_steps(seed::run<S::value>(seed::golden(copy.path())));
        std::string found;
        for (const std::string& w : wrong) found += w + "; ";
        noticed(wrong == expected, name, "of device", d, "element", element, "found", found);
      });
  }
  CHECK(noticed);
}

TEST_CASE("a missing, a short and a misshapen golden file are refused") {
  golden_copy copy;
  files::resize_file(copy.path() + "/rank0_h1.npy", files::file_size(copy.path() + "/rank0_h1.npy") - 8);
  CHECK_THROWS_AS(seed::run<fused::value>(seed::golden(copy.path())), std::runtime_error);
  files::remove(copy.path() + "/rank0_h1.npy");
  CHECK_THROWS_AS(seed::run<fused::value>(seed::golden(copy.path())), std::runtime_error);
}

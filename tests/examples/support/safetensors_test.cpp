// SPDX-License-Identifier: MIT
#include "safetensors.hpp"

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>

#include <doctest/doctest.h>

namespace {

/// A file that is gone after the test.
class temporary_path {
 public:
  temporary_path() {
    std::string name = (std::filesystem::temp_directory_path() / "safetensors_XXXXXX").string();
    const int file = ::mkstemp(name.data());
    REQUIRE(file >= 0);
    ::close(file);
    name_ = name;
  }
  temporary_path(const temporary_path&) = delete;
  temporary_path& operator=(const temporary_path&) = delete;
  ~temporary_path() { std::filesystem::remove(name_); }
  const std::string& name() const { return name_; }
  std::string bytes() const {
    std::ifstream in(name_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void set(const std::string& bytes) const {
    std::filesystem::remove(name_);  // some file systems wait for the disk when a file is replaced in place
    std::ofstream(name_, std::ios::binary) << bytes;
  }

 private:
  std::string name_;
};

/// A file with this header and that many bytes of tensors.
std::string file_of(const std::string& json, std::size_t bytes) {
  std::string prefix(8, '\0');
  const std::uint64_t length = json.size();
  std::memcpy(prefix.data(), &length, sizeof length);
  return prefix + json + std::string(bytes, '\1');
}

/// What a reader says to a file of these bytes, without the path; empty if it takes it.
std::string refusal(const std::string& bytes) {
  const temporary_path path;
  path.set(bytes);
  try {
    const safetensors::reader file(path.name());
    return "";
  } catch (const safetensors::error& wrong) {
    const std::string what = wrong.what();
    CHECK(what.find('\n') == what.npos);
    REQUIRE(what.starts_with(path.name() + ": "));
    return what.substr(path.name().size() + 2);
  }
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

}  // namespace

TEST_CASE("tensors and metadata come back, and lie at a multiple of 64 bytes") {
  std::vector<float> matrix(6), vector{-0.0F, std::numeric_limits<float>::infinity(), 1e-40F};
  std::iota(matrix.begin(), matrix.end(), 1.5F);
  const std::vector<safetensors::entry> tensors{{"matrix", {2, 3}, matrix},
                                                {"a vector", {3}, vector},
                                                {"nothing", {0, 7}, {}},
                                                {"number", {}, {vector.data(), 1}}};
  const temporary_path path;
  safetensors::write(path.name(), tensors, {{"made by", "a test \"\n"}});

  safetensors::reader file(path.name());
  CHECK(file.header().metadata.at("made by") == "a test \"\n");
  CHECK(file.header().data % 64 == 0);
  CHECK(file.header().tensors.size() == 4);
  CHECK(file.header().tensors[0].name == "matrix");  // in the order of the file
  CHECK(file.header().find("nothing").elements() == 0);
  CHECK(file.header().find("number").elements() == 1);
  std::vector<float> back(6), three(3);
  file.read(file.header().find("a vector"), three);
  file.read(file.header().find("matrix"), back);
  CHECK(back == matrix);
  CHECK(std::memcmp(three.data(), vector.data(), 3 * sizeof(float)) == 0);
  CHECK_THROWS_WITH_AS(file.header().find("other"), "there is no tensor \"other\"", safetensors::error);
  CHECK_THROWS_WITH_AS(file.read(file.header().find("matrix"), three),
                       (path.name() + ": the tensor \"matrix\" has 6 elements, there is room for 3").c_str(),
                       safetensors::error);
}

TEST_CASE("bfloat16 is written to the nearest, to even in the middle, and read exactly") {
  const float one_and_half_step = 1 + 0x1p-8F;
  const std::vector<float> given{1,
                                 one_and_half_step,
                                 1 + 0x3p-8F,
                                 one_and_half_step + 0x1p-20F,
                                 -0.0F,
                                 std::numeric_limits<float>::max(),
                                 std::numeric_limits<float>::quiet_NaN()};
  const temporary_path path;
  const std::vector<safetensors::entry> tensors{{"x", {given.size()}, given, "BF16"}};
  safetensors::write(path.name(), tensors);
  safetensors::reader file(path.name());
  CHECK(file.header().find("x").end == 2 * given.size());
  std::vector<float> back(given.size());
  file.read(file.header().find("x"), back);
  CHECK(back[0] == 1);
  CHECK(back[1] == 1);            // the middle, even below
  CHECK(back[2] == 1 + 0x4p-8F);  // the middle, even above
  CHECK(back[3] == 1 + 0x2p-8F);  // above the middle
  CHECK(std::signbit(back[4]));
  CHECK(std::isinf(back[5]));
  CHECK(std::isnan(back[6]));
}

TEST_CASE("a whole file is needed, and nothing but the file") {
  const temporary_path path;
  const std::vector<float> numbers(20, 2);
  const std::vector<safetensors::entry> tensors{{"x", {4, 5}, numbers}};
  safetensors::write(path.name(), tensors);
  const std::string whole = path.bytes();
  CHECK(refusal(whole) == "");
  for (std::size_t size = 0; size < whole.size(); ++size) CHECK(refusal(whole.substr(0, size)) != "");
  CHECK(refusal(whole + "x") == "was cut off or damaged: its size does not fit: expected " +
                                    std::to_string(whole.size()) + " bytes, got " + std::to_string(whole.size() + 1));
  CHECK(refusal("") == "is no safetensors file, or one that was cut off");
  CHECK_THROWS_WITH_AS(safetensors::reader("/nowhere/x"), doctest::Contains("/nowhere/x: cannot be read: No such"),
                       safetensors::error);
  CHECK_THROWS_WITH_AS(safetensors::reader("/"), doctest::Contains("/: cannot be read"), safetensors::error);
}

TEST_CASE("headers that are none") {
  CHECK(refusal(std::string(100, 'a')) == "is no safetensors file");
  CHECK(refusal(file_of("[]", 0)) == "is no safetensors file");
  CHECK(refusal(file_of(" {}", 0)) == "is no safetensors file");
  CHECK(refusal(file_of("{}x", 0)) == "is no safetensors file: its header is no JSON");
  CHECK(refusal(file_of("{\"\xff\":1}", 0)) == "is no safetensors file: its header is no JSON");
  CHECK(refusal(file_of("{}   ", 0)) == "");
  CHECK(refusal(file_of(R"({"a":{"a":{"a":{"a":1}}}})", 0)) == "the header is nested too deeply");
  CHECK(refusal(file_of("{\"a\":" + std::string(100000, '['), 0)) == "the header is nested too deeply");
  CHECK(refusal(file_of(R"({"__metadata__":[]})", 0)) == "__metadata__ is no object");
  CHECK(refusal(file_of(R"({"__metadata__":{"a":1}})", 0)) == "__metadata__ has something else than text: \"a\"");
  CHECK(refusal(file_of(R"({"a":1,"a":2})", 0)) == "the header has \"a\" twice");
  CHECK(refusal(file_of(R"({"w":{"dtype":"F32","dtype":"F32"}})", 0)) == "the header has \"dtype\" twice");
}

TEST_CASE("tensors that contradict themselves, each other or the file") {
  CHECK(refusal(file_of(one(R"("F32")", "[2,3]", "[0,24]"), 24)) == "");
  CHECK(refusal(file_of(R"({"w":[]})", 0)) == "the tensor \"w\" has no dtype");
  CHECK(refusal(file_of(R"({"w":{"dtype":"F32","shape":[]}})", 0)) == "the tensor \"w\" has no data_offsets");
  CHECK(refusal(file_of(one("1", "[]", "[0,4]"), 4)) == "the dtype of \"w\" is no text");
  CHECK(refusal(file_of(one(R"("Q4")", "[]", "[0,4]"), 4)) == "the dtype of \"w\", \"Q4\", is not known");
  CHECK(refusal(file_of(one(R"("F32")", "4", "[0,4]"), 4)) == "the shape of \"w\" is no list");
  for (const char* shape : {"[-1]", "[1.0]", "[\"1\"]", "[18446744073709551616]"})
    CHECK(refusal(file_of(one(R"("F32")", shape, "[0,4]"), 4)) == "the shape of \"w\" is not made of whole numbers");
  CHECK(refusal(file_of(one(R"("F32")", "[1]", "[0]"), 4)) == "the data_offsets of \"w\" are not two");
  CHECK(refusal(file_of(one(R"("F32")", "[1]", "[0,-4]"), 4)) == "data_offsets of \"w\" is not made of whole numbers");
  CHECK(refusal(file_of(one(R"("F32")", "[1]", "[4,0]"), 4)) ==
        "the tensor \"w\" has shape and dtype for 4 bytes, but data_offsets from 4 to 0");
  CHECK(refusal(file_of(one(R"("BF16")", "[2,3]", "[0,24]"), 24)) ==
        "the tensor \"w\" has shape and dtype for 12 bytes, but data_offsets from 0 to 24");
  // Products that wrap around to what the offsets say.
  for (const char* shape : {"[4294967296,4294967296]", "[4611686018427387904]", "[9223372036854775808,2,0]"})
    CHECK(refusal(file_of(one(R"("F32")", shape, "[0,0]"), 0)) == "the shape of \"w\" has too many elements");

  const auto two = [](const std::string& first, const std::string& second) {
    return file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
                       R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}",
                   8);
  };
  CHECK(refusal(two("[0,4]", "[4,8]")) == "");
  CHECK(refusal(two("[4,8]", "[0,4]")) == "");
  CHECK(refusal(two("[0,4]", "[3,7]")) == "the tensor \"b\" overlaps the one before it");
  CHECK(refusal(two("[0,4]", "[0,4]")) == "the tensor \"b\" overlaps the one before it");
  CHECK(refusal(two("[0,4]", "[5,9]")) == "the tensor \"b\" leaves a hole after the one before it");
  CHECK(refusal(two("[1,5]", "[5,9]")) == "the tensor \"a\" leaves a hole after the one before it");
}

TEST_CASE("a header that promises an exabyte allocates nothing") {
  const std::string big = one(R"("F32")", "[288230376151711744]", "[0,1152921504606846976]");
  CHECK(refusal(file_of(big, 0)).starts_with("was cut off or damaged: its size does not fit"));
  std::string lies = file_of("{}", 0);
  const std::uint64_t length = 99'999'999;
  std::memcpy(lies.data(), &length, sizeof length);
  CHECK(refusal(lies) == "was cut off or damaged: its size does not fit: expected 100000007 bytes, got 10");
}

TEST_CASE("what cannot be written or converted") {
  const std::vector<float> numbers(6);
  const temporary_path path;
  const auto write = [&](std::vector<safetensors::entry> tensors) { safetensors::write(path.name(), tensors); };
  CHECK_THROWS_WITH_AS(write({{"x", {2, 2}, numbers}}), doctest::Contains("expected 4 elements of F32 or BF16, got 6"),
                       safetensors::error);
  CHECK_THROWS_WITH_AS(write({{"x", {6}, numbers}, {"x", {6}, numbers}}), "the name \"x\" is taken",
                       safetensors::error);
  CHECK_THROWS_WITH_AS(write({{"__metadata__", {6}, numbers}}), doctest::Contains("is taken"), safetensors::error);
  CHECK_THROWS_WITH_AS(write({{"\xff", {6}, numbers}}), "a name or the metadata is no UTF-8", safetensors::error);
  CHECK_THROWS_AS(safetensors::write("/nowhere/x", {}), safetensors::error);

  path.set(file_of(one(R"("F16")", "[3]", "[0,6]"), 6));
  safetensors::reader file(path.name());
  std::array<float, 3> three{};
  CHECK_THROWS_WITH_AS(file.read(file.header().find("w"), three),
                       (path.name() + ": the tensor \"w\" is of F16, not F32 or BF16").c_str(), safetensors::error);
}

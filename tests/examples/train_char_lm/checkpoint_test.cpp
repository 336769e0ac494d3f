// SPDX-License-Identifier: MIT
#include "checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "files.hpp"
#include "safetensors.hpp"

using namespace char_lm;

namespace {

constexpr model_shape tiny{.context = 2, .width = 3, .intermediate = 4, .blocks = 1};
constexpr std::uint64_t alphabet = 5;
constexpr std::size_t values = 5 * 3 + 6 + 3 * 6 * 4 + 6 + 6 * 5;  // embedding, norm, layer, norm, head

checkpoint example() {
  checkpoint c{.shape = tiny, .alphabet = alphabet, .fingerprint = 99, .step = 7, .made_with = {}, .state = {}};
  c.made_with.rate = 0.1;
  for (std::size_t s = 0; s < 3; ++s)
    for (std::size_t i = 0; i < values; ++i) c.state[s].push_back(static_cast<float>(i) / 7 - static_cast<float>(s));
  c.state[1][3] = -0.0F;
  c.state[2][4] = std::numeric_limits<float>::denorm_min();
  return c;
}

}  // namespace

TEST_CASE("a checkpoint comes back to the last bit, and replaces the one before") {
  const temporary_folder folder;
  const std::string path = folder.path("a");
  save_checkpoint(path, example());
  const std::string first = folder.read("a");
  const checkpoint back = load_checkpoint(path, tiny);
  CHECK(back.alphabet == alphabet);
  CHECK(back.fingerprint == 99);
  CHECK(back.step == 7);
  CHECK(back.made_with == example().made_with);
  for (std::size_t s = 0; s < 3; ++s) {
    REQUIRE(back.state[s].size() == values);
    CHECK(std::memcmp(back.state[s].data(), example().state[s].data(), values * sizeof(float)) == 0);
  }

  checkpoint later = example();
  later.step = 8;
  save_checkpoint(path, later);
  CHECK(load_checkpoint(path, tiny).step == 8);
  save_checkpoint(path, example());
  CHECK(folder.read("a") == first);  // the same run, the same file
  CHECK(folder.files() == 1);        // no temporary file is left
}

TEST_CASE("a checkpoint that was cut off anywhere is refused") {
  const temporary_folder folder;
  save_checkpoint(folder.path("a"), example());
  const std::string whole = folder.read("a");
  for (std::size_t size = 0; size < whole.size(); size += 13) {
    const std::string cut = folder.write("cut", whole.substr(0, size));
    CHECK(contains(complaint([&] { load_checkpoint(cut, tiny); }), "cut off"));
  }
  const std::string longer = folder.write("longer", whole + "x");
  CHECK(contains(complaint([&] { load_checkpoint(longer, tiny); }), "its size does not fit"));
}

TEST_CASE("a checkpoint with any byte changed is refused") {
  const temporary_folder folder;
  save_checkpoint(folder.path("a"), example());
  const std::string whole = folder.read("a");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    const std::string path = folder.write("damaged", damaged);
    CHECK_UNARY(complaint([&] { load_checkpoint(path, tiny); }) != "");
  }
}

TEST_CASE("any tool reads it: the tensors have names and shapes, the run is in the metadata") {
  const temporary_folder folder;
  save_checkpoint(folder.path("a"), example());
  safetensors::reader file(folder.path("a"));
  CHECK(file.header().metadata.at("step") == "7");
  CHECK(file.header().metadata.at("rate") == "0.1");
  CHECK(file.header().tensors.size() == 3 * 7);
  const safetensors::tensor_info& gate = file.header().find("first_moments.blocks.0.gate");
  CHECK(gate.shape == std::vector<std::uint64_t>{6, 4});
  std::vector<float> elements(24);
  file.read(gate, elements);
  CHECK(std::equal(elements.begin(), elements.end(), example().state[1].begin() + 5 * 3 + 6));
}

TEST_CASE("a safetensors file of somebody else is refused") {
  const temporary_folder folder;
  const std::vector<float> one{1};
  safetensors::write(folder.path("other"), std::vector<safetensors::entry>{{"x", {1}, one}}, {{"format", "2"}});
  CHECK(contains(complaint([&] { load_checkpoint(folder.path("other"), tiny); }), "is no checkpoint of this program"));
  safetensors::write(folder.path("old"), std::vector<safetensors::entry>{{"x", {1}, one}},
                     {{"program", "train_char_lm"}, {"format", "1"}});
  CHECK(contains(complaint([&] { load_checkpoint(folder.path("old"), tiny); }), "of another format"));

  using text_map = std::map<std::string, std::string>;
  const text_map mark{{"program", "train_char_lm"}, {"format", "2"}};
  const auto says = [&](text_map metadata, const char* part) {
    metadata.insert(mark.begin(), mark.end());
    safetensors::write(folder.path("made"), std::vector<safetensors::entry>{{"x", {1}, one}}, metadata);
    CHECK(contains(complaint([&] { load_checkpoint(folder.path("made"), tiny); }), part));
  };
  const auto of_alphabet = [](const std::string& text) {
    return text_map{{"context", "2"}, {"width", "3"}, {"intermediate", "4"}, {"blocks", "1"}, {"fingerprint", "99"},
                    {"step", "7"},    {"seed", "1"},  {"steps", "9"},        {"batch", "2"},  {"rate", "0.1"},
                    {"decay", "0"},   {"clip", "1"},  {"alphabet", text}};
  };
  says({}, "is damaged: its metadata has no context");
  says(of_alphabet("five"), "is damaged: its metadata has no number alphabet");
  says(of_alphabet("5"), "is damaged: it has not the tensors of this model");
  says(of_alphabet("1099511627776"), "is damaged: its alphabet has more than 256 characters");
}

TEST_CASE("what is no checkpoint of this model says so") {
  const temporary_folder folder;
  save_checkpoint(folder.path("a"), example());
  model_shape other = tiny;
  other.blocks = 2;
  CHECK(contains(complaint([&] { load_checkpoint(folder.path("a"), other); }),
                 "is of another model: 1 blocks of (2 x 3) x 4"));
  const std::string prose = folder.write("prose", std::string(1000, 'a'));
  CHECK(contains(complaint([&] { load_checkpoint(prose, tiny); }), "is no safetensors file"));
  CHECK(contains(complaint([&] { load_checkpoint(folder.path("missing"), tiny); }), "No such file"));
  CHECK(contains(complaint([&] { load_checkpoint(folder.path(""), tiny); }), "cannot be read"));
}

TEST_CASE("a checkpoint that cannot be written leaves the old one") {
  const temporary_folder folder;
  CHECK_THROWS_WITH_AS(save_checkpoint(folder.path("no/a"), example()), doctest::Contains("cannot be written"),
                       std::runtime_error);
  save_checkpoint(folder.path("a"), example());
  const std::string before = folder.read("a");
  std::filesystem::create_directory(folder.path("a.tmp"));  // in the way of the temporary file
  CHECK_THROWS_AS(save_checkpoint(folder.path("a"), example()), std::runtime_error);
  CHECK(folder.read("a") == before);
}

TEST_CASE("where a checkpoint may go") {
  const temporary_folder folder;
  const std::string prose = folder.write("prose", "a text that somebody needs");
  CHECK(complaint([&] { check_writable(folder.path("new")); }) == "");
  CHECK(contains(complaint([&] { check_writable(folder.path("no/a")); }), "there is no folder"));
  CHECK(contains(complaint([&] { check_writable(folder.path("")); }), "is no checkpoint"));
  CHECK(contains(complaint([&] { check_writable(prose); }), "is no checkpoint: it will not be replaced"));
  save_checkpoint(folder.path("a"), example());
  CHECK(complaint([&] { check_writable(folder.path("a")); }) == "");
  CHECK(folder.files() == 2);
}

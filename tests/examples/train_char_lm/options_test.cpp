// SPDX-License-Identifier: MIT
#include "options.hpp"

#include <initializer_list>
#include <vector>

#include "files.hpp"

using namespace char_lm;

namespace {

options parsed(std::initializer_list<const char*> arguments) {
  return parse_options(std::vector<const char*>(arguments));
}
std::string refused(std::initializer_list<const char*> arguments) {
  return complaint([&] { parsed(arguments); });
}

}  // namespace

TEST_CASE("flags and files") {
  const options o = parsed({"a.txt", "--mesh", "3x4", "--steps=12", "--rate", "1e-3", "--validate", "v", "--validate=w",
                            "--seed", "18446744073709551615", "--", "--b"});
  CHECK(o.files == std::vector<std::string>{"a.txt", "--b"});
  CHECK(o.held_out == std::vector<std::string>{"v", "w"});
  CHECK(o.data == 3);
  CHECK(o.tensor == 4);
  CHECK(o.how.steps == 12);
  CHECK(o.how.rate == 1e-3);
  CHECK(o.how.seed == 18446744073709551615U);
  CHECK(o.how.batch == recipe{}.batch);
  CHECK_FALSE(o.help);
  CHECK(parsed({"--help"}).help);
  CHECK_FALSE(o.mpi);
  CHECK_FALSE(o.rank_ordered);
  CHECK(parsed({"--transport", "mpi", "--rank-ordered"}).mpi);
  CHECK(parsed({"--transport", "mpi", "--rank-ordered"}).rank_ordered);
  CHECK_FALSE(parsed({"--transport=threads"}).mpi);
}

TEST_CASE("every wrong flag is named") {
  CHECK(refused({"--stepz", "3"}) == "--stepz: there is no such flag (--help lists them)");
  CHECK(refused({"-h"}) == "-h: there is no such flag (--help lists them)");
  CHECK(refused({"--steps"}) == "--steps: its value is missing (N)");
  CHECK(refused({"--help=yes"}) == "--help: takes no value");
  for (const char* number : {"0", "-1", "1.5", "ten", "", "5 ", "99999999999999999999"})
    CHECK(contains(refused({"--steps", number}), "expected a whole number from 1 to 1000000000"));
  for (const char* number : {"0", "-1", "nan", "inf", "x", ""})
    CHECK(contains(refused({"--rate", number}), "expected a number above 0"));
  CHECK(contains(refused({"--decay", "-0.1"}), "expected a number of at least 0"));
  CHECK(parsed({"--decay", "0"}).how.decay == 0);
  CHECK(contains(refused({"--checkpoint", ""}), "expected the name of a file"));
  CHECK(contains(refused({""}), "expected the name of a file"));
  CHECK(refused({"--transport", "pigeons"}) == "--transport pigeons: expected threads or mpi");
  CHECK(refused({"--rank-ordered=yes"}) == "--rank-ordered: takes no value");
  CHECK(contains(refused({"--checkpoint-every", "5"}), "needs --checkpoint"));
}

TEST_CASE("a mesh has to divide the model") {
  for (const char* mesh : {"2", "x", "2x", "x2", "0x1", "1x0", "-1x1", "2x2x2", "axb", "2X2"})
    CHECK(contains(refused({"--mesh", mesh}), "expected DATAxTENSOR"));
  CHECK(contains(refused({"--mesh", "1x3"}), "over 1, 2 or 4 tensor ranks, not 3"));
  CHECK(contains(refused({"--mesh", "1000x1"}), "at most 256 data ranks"));
}

TEST_CASE("a resumed run takes the recipe of the checkpoint, and flags may only repeat it") {
  recipe made_with;
  made_with.steps = 77;
  made_with.rate = 0.5;
  CHECK(resumed_recipe(parsed({"--mesh", "1x1"}), made_with) == made_with);
  CHECK(resumed_recipe(parsed({"--steps", "77", "--rate=0.5"}), made_with) == made_with);
  CHECK(complaint([&] {
          resumed_recipe(parsed({"--steps", "78"}), made_with);
        }) == "--steps 78: the checkpoint was made with 77");
  CHECK(complaint([&] {
          resumed_recipe(parsed({"--rate", "0.25"}), made_with);
        }) == "--rate 0.25: the checkpoint was made with 0.5");
}

TEST_CASE("the help names every flag") {
  for (const char* name : {"--mesh", "--steps", "--checkpoint", "--resume", "--validate", "--seed", "FILE"})
    CHECK(contains(help_text(), name));
}

// SPDX-License-Identifier: MIT
#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include "bad_input.hpp"

namespace char_lm {

namespace {

static_assert(std::ranges::all_of(tensor_ranks,
                                  [](int n) { return shape.intermediate % static_cast<unsigned>(n) == 0; }));

template <class N>
std::optional<N> as_number(std::string_view text) {
  N value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string shown(std::uint64_t value) { return std::to_string(value); }
std::string shown(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

struct flag {
  std::string_view name, value;  // what its value is called
  std::string help;
  std::function<void(options&, std::string_view)> set;
  // Of the recipe: copies the field, and shows it.
  std::function<void(recipe& to, const recipe& from)> copy = {};
  std::function<std::string(const recipe&)> show = {};
};

[[noreturn]] void refuse(std::string_view name, std::string_view value, const std::string& wanted) {
  throw bad_input(std::string(name) + " " + std::string(value) + ": " + wanted);
}

void set_whole(std::string_view name, std::string_view text, std::uint64_t low, std::uint64_t high, std::uint64_t& to) {
  const auto value = as_number<std::uint64_t>(text);
  if (!value || *value < low || *value > high)
    refuse(name, text, "expected a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  to = *value;
}

flag whole(std::string_view name, std::string help, std::uint64_t options::*field, std::uint64_t low) {
  const auto set = [=](options& o, std::string_view text) { set_whole(name, text, low, 1'000'000'000, o.*field); };
  return {name, "N", std::move(help), set};
}
flag whole(std::string_view name, std::string help, std::uint64_t recipe::*field, std::uint64_t low,
           std::uint64_t high) {
  return {name,
          "N",
          help + ", default " + shown(recipe{}.*field),
          [=](options& o, std::string_view text) { set_whole(name, text, low, high, o.how.*field); },
          [=](recipe& to, const recipe& from) { to.*field = from.*field; },
          [=](const recipe& r) { return shown(r.*field); }};
}
flag real(std::string_view name, std::string help, double recipe::*field, bool zero) {
  return {name,
          "X",
          help + ", default " + shown(recipe{}.*field),
          [=](options& o, std::string_view text) {
            const auto value = as_number<double>(text);
            if (!value || !std::isfinite(*value) || *value < 0 || (*value == 0 && !zero))
              refuse(name, text, zero ? "expected a number of at least 0" : "expected a number above 0");
            o.how.*field = *value;
          },
          [=](recipe& to, const recipe& from) { to.*field = from.*field; },
          [=](const recipe& r) { return shown(r.*field); }};
}
flag path(std::string_view name, std::string help, std::string options::*field) {
  return {name, "FILE", std::move(help), [=](options& o, std::string_view text) {
            if (text.empty()) refuse(name, "''", "expected the name of a file");
            o.*field = text;
          }};
}

void set_mesh(options& o, std::string_view text) {
  const std::size_t cross = text.find('x');
  const int data = as_number<int>(text.substr(0, cross)).value_or(0);
  const int tensor = cross == text.npos ? 0 : as_number<int>(text.substr(cross + 1)).value_or(0);
  if (data < 1 || tensor < 1) refuse("--mesh", text, "expected DATAxTENSOR, two whole numbers above 0, such as 2x2");
  if (std::ranges::count(tensor_ranks, tensor) == 0)
    refuse("--mesh", text,
           "this program can cut the " + std::to_string(shape.intermediate) +
               " columns of a layer over 1, 2 or 4 tensor ranks, not " + std::to_string(tensor));
  constexpr int most = 256;
  if (data > most) refuse("--mesh", text, "at most " + std::to_string(most) + " data ranks");
  o.data = data, o.tensor = tensor;
}

void set_transport(options& o, std::string_view text) {
  if (text != "threads" && text != "mpi") refuse("--transport", text, "expected threads or mpi");
  o.mpi = text == "mpi";
}

const std::vector<flag>& flags() {
  static const std::vector<flag> all{
      {"--validate", "FILE",
       "hold this file out (may be repeated); default: the last of several files,\n"
       "or the last tenth of a single one",
       [](options& o, std::string_view text) { o.held_out.emplace_back(text); }},
      {"--mesh", "DxT", "ranks: D share each batch, T share each layer (1, 2 or 4), default 2x2", set_mesh},
      {"--transport", "NAME", "what the ranks are: threads (default), or mpi: the processes of mpiexec", set_transport},
      {"--rank-ordered", "", "sums in the order of the ranks: the same bits on every transport",
       [](options& o, std::string_view) { o.rank_ordered = true; }},
      whole("--steps", "steps of the whole training", &recipe::steps, 1, 1'000'000'000),
      whole("--batch", "characters learned in a step", &recipe::batch, 1, 1'000'000),
      whole("--seed", "another seed, other random numbers", &recipe::seed, 0,
            std::numeric_limits<std::uint64_t>::max()),
      real("--rate", "highest learning rate", &recipe::rate, false),
      real("--decay", "weight decay", &recipe::decay, true),
      real("--clip", "largest global norm of the gradient", &recipe::clip, false),
      whole("--report-every", "steps between two lines, default a tenth of all", &options::report_every, 1),
      whole("--sample", "characters of generated text, default 400", &options::sample, 0),
      path("--checkpoint", "write checkpoints here", &options::checkpoint),
      whole("--checkpoint-every", "steps between two of them, default only at the end", &options::checkpoint_every, 1),
      path("--resume", "continue from this checkpoint, on any mesh", &options::resume),
      whole("--stop-at", "stop after this step, as if interrupted", &options::stop_at, 1),
      {"--help", "", "show this", [](options& o, std::string_view) { o.help = true; }},
  };
  return all;
}

}  // namespace

options parse_options(std::span<const char* const> arguments) {
  options o;
  bool only_files = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (only_files || !argument.starts_with('-') || argument == "-") {
      if (argument.empty()) throw bad_input("'': expected the name of a file");
      o.files.emplace_back(argument);
      continue;
    }
    if (argument == "--") {
      only_files = true;
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const auto found = std::ranges::find(flags(), name, &flag::name);
    if (found == flags().end()) throw bad_input(std::string(name) + ": there is no such flag (--help lists them)");
    o.given.emplace_back(name);
    if (found->value.empty()) {
      if (equals != argument.npos) throw bad_input(std::string(name) + ": takes no value");
      found->set(o, {});
    } else if (equals != argument.npos) {
      found->set(o, argument.substr(equals + 1));
    } else if (i + 1 < arguments.size()) {
      found->set(o, arguments[++i]);
    } else {
      throw bad_input(std::string(name) + ": its value is missing (" + std::string(found->value) + ")");
    }
  }
  if (o.checkpoint_every > 0 && o.checkpoint.empty()) throw bad_input("--checkpoint-every: needs --checkpoint FILE");
  return o;
}

recipe resumed_recipe(const options& o, const recipe& made_with) {
  for (const flag& f : flags()) {
    if (!f.copy || std::ranges::count(o.given, f.name) == 0) continue;
    recipe as_given = made_with;
    f.copy(as_given, o.how);
    if (as_given != made_with) refuse(f.name, f.show(o.how), "the checkpoint was made with " + f.show(made_with));
  }
  return made_with;
}

std::string help_text() {
  std::ostringstream out;
  out << "train_char_lm [FLAG...] [FILE...]\n\n"
         "Trains a character language model on text files: the embeddings of the last "
      << shape.context << " characters,\n"
      << shape.blocks << " blocks of RMSNorm, SwiGLU (" << shape.hidden() << " x " << shape.intermediate
      << ") and residual, logits; on a mesh of ranks. Ends with its loss on\n"
         "text that it has not seen, and with text of its own. Without FILE it learns the licences in\n"
         "/usr/share/common-licenses, except Artistic and CC0-1.0, which are held out; else ./LICENSE.\n\n";
  constexpr std::size_t column = 24;
  for (const flag& f : flags()) {
    std::string left = "  " + std::string(f.name) + " " + std::string(f.value);
    left.resize(column, ' ');
    out << left;
    for (const char c : f.help) out << (c == '\n' ? "\n" + std::string(column, ' ') : std::string(1, c));
    out << "\n";
  }
  out << "\nExit status: 0; 2 for a wrong flag or file (one line says which); 1 for any other failure.\n";
  return out.str();
}

}  // namespace char_lm

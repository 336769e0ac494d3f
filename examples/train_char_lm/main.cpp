// SPDX-License-Identifier: MIT

// A character language model on the library's SwiGLU layer, trained on a mesh of threads or of MPI processes. Where to
// read:
//
//     model.hpp       the two calls of the library in a model
//     threads.cpp     a mesh of threads
//     mpi.cpp         a mesh of processes
//     timed.hpp       a communicator of one's own
//     trainer.hpp     a step: forward, loss, backward, clipping, update
//     adamw.hpp       an optimiser as one fused kernel
//     checkpoint.hpp  saving and resuming

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "bad_input.hpp"
#include "checkpoint.hpp"
#include "corpus.hpp"
#include "entropy.hpp"
#include "job.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "transport.hpp"

namespace {

using namespace char_lm;

/// The width of the terminal, 0 if there is none that can redraw a line.
int terminal_columns() {
  const char* kind = std::getenv("TERM");
  if (::isatty(STDOUT_FILENO) == 0 || kind == nullptr || std::string_view(kind) == "dumb") return 0;
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void print_beginning(const options& o, const corpus& of, const transport& ranks) {
  std::printf("learned   %zu characters of %s\n", of.training.size(), of.training.names().c_str());
  std::printf("held out  %zu characters of %s%s\n", of.validation.size(), of.validation.names().c_str(),
              of.same_file ? " (part of the same file: an easy test)" : "");
  const double alphabet = static_cast<double>(of.alphabet.size());
  std::printf("model     last %zu characters, %zu blocks of %zu x %zu; %zu symbols, so guessing costs %.4f bits\n",
              shape.context, shape.blocks, shape.hidden(), shape.intermediate, of.alphabet.size(), std::log2(alphabet));
  const unsigned processors = std::thread::hardware_concurrency();
  std::printf("mesh      %d data x %d tensor %s on %u processors%s\n", o.data, o.tensor, ranks.kind().c_str(),
              processors,
              static_cast<unsigned>(o.data * o.tensor) > processors ? " (comm includes waiting for a processor)" : "");
  std::printf("training  %llu steps of %llu characters, seed %llu\n\n", static_cast<unsigned long long>(o.how.steps),
              static_cast<unsigned long long>(o.how.batch), static_cast<unsigned long long>(o.how.seed));
  std::fflush(stdout);
}

void print_end(const corpus& of, double model_bits, const std::string& sample) {
  const table_bits predicted = bits_by_table(of.training, of.validation, of, 1);
  const table_bits own = bits_by_table(of.validation, of.validation, of, 0);
  std::printf("\nbits per character of the held-out text\n");
  std::printf("  unigram table   %.4f learned (add one)   %.4f with the text's own counts\n", predicted.unigram,
              own.unigram);
  std::printf("  bigram table    %.4f learned (add one)   %.4f with the text's own counts\n", predicted.bigram,
              own.bigram);
  std::printf("  this model      %.4f learned\n", model_bits);
  if (!sample.empty()) std::printf("\nThe model writes:\n%s\n", sample.c_str());
}

void run(options o, transport& ranks) {
  ranks.check_mesh(o.data, o.tensor);
  const corpus of = read_corpus(o.files, o.held_out, shape.context);
  std::optional<checkpoint> resumed;
  if (!o.resume.empty()) {
    resumed = load_checkpoint(o.resume, shape);
    if (resumed->fingerprint != of.fingerprint())
      throw bad_input(o.resume + ": the checkpoint was made with another text");
    o.how = resumed_recipe(o, resumed->made_with);
  }
  const std::uint64_t first = resumed ? resumed->step : 0;
  const std::uint64_t last = o.stop_at == 0 ? o.how.steps : std::min(o.stop_at, o.how.steps);
  if (first >= last)
    throw bad_input(o.resume + ": nothing to do: the checkpoint is of step " + std::to_string(first) +
                    ", the run ends at " + std::to_string(last));
  if (static_cast<std::uint64_t>(o.data) > o.how.batch)
    throw bad_input("--mesh " + std::to_string(o.data) + "x" + std::to_string(o.tensor) + ": a batch of " +
                    std::to_string(o.how.batch) + " cannot be cut into " + std::to_string(o.data) + " parts");
  if (!o.checkpoint.empty()) check_writable(o.checkpoint);

  if (ranks.root()) print_beginning(o, of, ranks);
  const auto batch = static_cast<double>(o.how.batch);
  progress table(std::cout, terminal_columns(), o.how.steps, batch, batch * shape.flops(of.alphabet.size()));
  double model_bits = 0;
  std::string sample;
  training_job<float> job{.of = of, .how = o.how, .first_step = first, .last_step = last};
  job.report_every = o.report_every > 0 ? o.report_every : std::max<std::uint64_t>(o.how.steps / 10, 1);
  job.checkpoint_every = o.checkpoint_every;
  job.sample = o.sample;
  job.resume = resumed ? &resumed->state : nullptr;
  // These are called in rank 0.
  job.on_step = [&](const step_report& step) {
    model_bits = step.validation.value_or(model_bits);
    table(step);
  };
  if (!o.checkpoint.empty())
    job.on_checkpoint = [&](std::uint64_t step, snapshot<float> state) {
      save_checkpoint(o.checkpoint, {shape, of.alphabet.size(), of.fingerprint(), step, o.how, std::move(state)});
    };
  job.on_sample = [&](const std::string& text) { sample = text; };
  ranks.train(job, o.data, o.tensor, o.rank_ordered);
  if (ranks.root()) print_end(of, model_bits, sample);
}

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<transport> ranks;
  try {
    const options o =
        parse_options(std::span<const char* const>(argv, static_cast<std::size_t>(argc)).subspan(argc > 0 ? 1 : 0));
    if (o.help) {
      std::cout << help_text();
      return 0;
    }
    ranks = o.mpi ? mpi_transport() : thread_transport();
    run(o, *ranks);
    return 0;
  } catch (const bad_input& wrong) {  // in all processes alike
    if (!ranks || ranks->root()) std::cerr << "train_char_lm: " << wrong.what() << "\n";
    return 2;
  } catch (const std::exception& failure) {
    std::cerr << "train_char_lm: " << failure.what() << "\n";
    if (ranks) ranks->give_up(std::current_exception());
    return 1;
  }
}

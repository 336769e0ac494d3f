// SPDX-License-Identifier: MIT

// The main function of every test program. A run in which a test was compiled out is a failure, not a success: the
// program fails if no test case ran, if nothing was asserted, and if one of the files named in SWIGLU_TEST_SOURCES
// (separated by colons; ctest sets it) contributed no test case.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <set>
#include <sstream>
#include <string>

namespace {

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::set<std::string> files_run;  // those with at least one test case that ran
int asserts = 0;

struct file_recorder : doctest::IReporter {
  explicit file_recorder(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData& test) override { files_run.insert(file_name(test.m_file.c_str())); }
  void test_run_end(const doctest::TestRunStats& run) override { asserts = run.numAsserts; }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("files", 1, file_recorder);

}  // namespace

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit()) return result;  // a query such as --list-test-cases

  int missing = 0;
  if (files_run.empty() || asserts == 0) {
    std::cerr << "error: " << (files_run.empty() ? "no test case ran\n" : "nothing was asserted\n");
    ++missing;
  }
  if (const char* expected = std::getenv("SWIGLU_TEST_SOURCES")) {
    std::istringstream names(expected);
    for (std::string name; std::getline(names, name, ':');) {
      if (files_run.count(name) != 0) continue;
      std::cerr << "error: no test case of " << name << " ran: compiled out?\n";
      ++missing;
    }
  }
  return result != 0 ? result : missing;
}

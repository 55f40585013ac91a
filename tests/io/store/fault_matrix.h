// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "fault_run.h"

namespace castor::test {

/// For n = 1, 2, 3 … runs a store whose n-th call meets the fault, until a run has fewer than n calls. Prints the
/// counts of each fault at the end.
class FaultMatrix : public ::testing::TestWithParam<FaultCase> {
 protected:
  void run_until_not_reached() {
    for (std::uint64_t nth = 1;; ++nth) {
      FaultRun run(GetParam(), nth);
      run.run();
      if (HasFatalFailure() || !run.reached()) break;
      count(run);
    }
    finish();
  }

  /// The same, with all runs at the same time: for faults that take long.
  void run_at_once() {
    constexpr std::uint64_t kNRuns = 56;  // a few more than there are calls
    std::deque<FaultRun> runs;
    std::vector<std::thread> threads;
    for (std::uint64_t nth = 1; nth <= kNRuns; ++nth) runs.emplace_back(GetParam(), nth);
    for (auto& run : runs) threads.emplace_back([&run] { run.run(); });
    for (auto& thread : threads) thread.join();
    EXPECT_FALSE(runs.back().reached());
    for (const auto& run : runs)
      if (run.reached()) count(run);
    finish();
  }

  static void TearDownTestSuite() {
    std::printf("%-44s %6s %6s %6s\n", "fault in the n-th call", "calls", "seen", "errors");
    for (const auto& line : lines())
      std::printf("%-44s %6d %6d %6d\n", line.name.c_str(), line.n_calls, line.n_seen, line.n_errors);
    lines().clear();
  }

 private:
  struct Line {
    std::string name;
    int n_calls = 0;   ///< that met the fault
    int n_seen = 0;    ///< of them: an error was reported
    int n_errors = 0;  ///< reported in all
  };
  static std::vector<Line>& lines() {
    static std::vector<Line> all;
    return all;
  }

  void count(const FaultRun& run) {
    ++line_.n_calls;
    line_.n_seen += run.n_errors() > 0 ? 1 : 0;
    line_.n_errors += run.n_errors();
  }
  void finish() {
    EXPECT_GE(line_.n_calls, 10);
    EXPECT_EQ(line_.n_seen > 0, GetParam().allowed != FaultCase::Allowed::nothing);
    line_.name = GetParam().name;
    lines().push_back(line_);
  }

  Line line_;
};

}  // namespace castor::test

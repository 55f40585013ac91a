// SPDX-License-Identifier: Apache-2.0
#include "tuning/thread_trial.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace castor {
namespace {

/// The numbers of threads in the order of the trial, each once, where a step with n takes `seconds_of(n)`.
std::vector<unsigned> tried(ThreadTrial& trial, const std::function<double(unsigned)>& seconds_of) {
  std::vector<unsigned> order = {trial.n_threads()};
  double now_s = 1;
  for (int step = 0; step < 100 && !trial.over(); ++step) {
    trial.note_step(static_cast<std::uint64_t>(now_s * 1e9));
    now_s += seconds_of(trial.n_threads());
    if (order.back() != trial.n_threads()) order.push_back(trial.n_threads());
  }
  EXPECT_TRUE(trial.over());
  return order;
}

TEST(ThreadTrial, TriesFewerAsLongAsStepsBecomeShorter) {
  ThreadTrial trial(16);
  EXPECT_EQ(tried(trial, [](unsigned n) { return n >= 9 ? 1 + 0.1 * n : 5 - 0.1 * n; }),
            (std::vector<unsigned>{16, 12, 9, 6, 9}));
  EXPECT_EQ(trial.best_threads(), 9);
  EXPECT_NEAR(trial.best_s(), 1.9, 1e-6);
  EXPECT_NEAR(trial.with_all_s(), 2.6, 1e-6);
}

TEST(ThreadTrial, KeepsAllWhereFewerDoNotHelp) {
  ThreadTrial trial(16);
  EXPECT_EQ(tried(trial, [](unsigned n) { return 2 - 0.01 * n; }), (std::vector<unsigned>{16, 12, 16}));
  EXPECT_EQ(trial.best_threads(), 16);
}

TEST(ThreadTrial, AGainOfLessThanAFiftiethIsNone) {
  ThreadTrial trial(16);
  EXPECT_EQ(tried(trial, [](unsigned n) { return 1 + 0.005 * n; }), (std::vector<unsigned>{16, 12, 16}));
}

TEST(ThreadTrial, EndsAtOneThread) {
  ThreadTrial trial(2);
  EXPECT_EQ(tried(trial, [](unsigned n) { return 1. * n; }), (std::vector<unsigned>{2, 1}));
  EXPECT_EQ(trial.best_threads(), 1);
  ThreadTrial alone(1);
  EXPECT_TRUE(alone.over());
}

TEST(ThreadTrial, TheFirstStepWithAnotherNumberDoesNotCount) {
  ThreadTrial trial(4);
  double now_s = 1;
  const auto step = [&](double seconds) { trial.note_step(static_cast<std::uint64_t>((now_s += seconds) * 1e9)); };
  for (const double seconds : {1., 2., 2., 2., 2., 2., 2.}) step(seconds);
  EXPECT_EQ(trial.n_threads(), 3);
  step(0.5);  // leaves more work to the next step than it took over
  for (const double seconds : {2.5, 2.5, 2.5, 2.5, 2.5}) step(seconds);
  EXPECT_TRUE(trial.over());
  EXPECT_EQ(trial.n_threads(), 4);
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "stream_trial.h"

#include <gtest/gtest.h>

#include <cmath>

namespace castor {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

TEST(StreamTrial, ComparesTheShorterOfTheLastTwoSteps) {
  StreamTrial trial;
  EXPECT_EQ(trial.phase(), StreamTrial::Phase::before);
  for (const std::uint64_t end_s : {10, 11, 16, 19, 28}) trial.note_step(end_s * kSecond);  // 1, 5, 3 and 9 s
  EXPECT_EQ(trial.recent_s(), 3);
  trial.begin();
  EXPECT_EQ(trial.phase(), StreamTrial::Phase::trying);
  EXPECT_EQ(trial.without_s(), 3);
  trial.note_step(40 * kSecond);
  EXPECT_EQ(trial.recent_s(), 12) << "those before do not count";
  trial.note_step(42 * kSecond);
  EXPECT_EQ(trial.recent_s(), 2);
  EXPECT_EQ(trial.without_s(), 3);
  trial.end();
  EXPECT_EQ(trial.phase(), StreamTrial::Phase::over);
}

TEST(StreamTrial, TheFirstStepHasNoLength) {
  StreamTrial trial;
  trial.note_step(5 * kSecond);
  EXPECT_TRUE(std::isinf(trial.recent_s()));
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "train/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace castor::train {
namespace {

TrainRecord after(std::int64_t n_steps) {
  TrainRecord record;
  record.tokens_per_step = 1000;
  record.losses.assign(static_cast<std::size_t>(n_steps), 2.5);
  record.step_s.assign(static_cast<std::size_t>(n_steps), 0.5);
  return record;
}

/// The steps that printed a line, if the n-th ends at n × `step_s`.
std::vector<std::int64_t> shown(bool in_place, std::int64_t n_steps, double step_s) {
  std::ostringstream stream;
  Progress progress(stream, {in_place}, n_steps);
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 1; step <= n_steps; ++step) {
    stream.str("");
    progress.update(after(step), static_cast<double>(step) * step_s);
    if (!stream.str().empty()) steps.push_back(step);
  }
  return steps;
}

TEST(Progress, LogHasEveryTenthStepFirstAndLast) {
  EXPECT_EQ(shown(false, 25, 0.001), (std::vector<std::int64_t>{1, 11, 21, 25}));
}

TEST(Progress, LogOfSlowStepsGoesByTime) { EXPECT_EQ(shown(false, 5, 1.0), (std::vector<std::int64_t>{1, 3, 5})); }

TEST(Progress, TerminalIsRewrittenTenTimesASecond) {
  EXPECT_EQ(shown(true, 9, 0.0625), (std::vector<std::int64_t>{1, 3, 5, 7, 9}));
}

TEST(Progress, TerminalLineIsClosedOnce) {
  std::ostringstream stream;
  Progress progress(stream, {true}, 3);
  progress.update(after(1), 0);
  EXPECT_EQ(stream.str().rfind("\r\x1b[2Kstep 1/3", 0), 0u);
  progress.finish();
  progress.finish();
  const std::string text = stream.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(Progress, ALineFitsTheWindowAndLosesTiersFirst) {
  TrainRecord record = after(12);
  record.grad_norms.assign(12, 1.25);
  record.last.used_bytes = {12 << 20, 30 << 20, 0};
  record.last.budget_bytes[0] = 64 << 20;
  const std::string whole = progress_line(record, 100);
  EXPECT_EQ(whole, "step 12/100  loss 2.5000  norm 1.25  2000 tokens/s  device 12.0 MiB of 64.0 MiB  host 30.0 MiB");
  EXPECT_EQ(progress_line(record, 100, whole.size()), whole);
  EXPECT_EQ(progress_line(record, 100, whole.size() - 1),
            "step 12/100  loss 2.5000  norm 1.25  2000 tokens/s  device 12.0 MiB of 64.0 MiB");
  EXPECT_EQ(progress_line(record, 100, 59), "step 12/100  loss 2.5000  norm 1.25  2000 tokens/s");
  EXPECT_EQ(progress_line(record, 100, 24), "step 12/100  loss 2.5000");
  EXPECT_EQ(progress_line(record, 100, 7), "step 12");
}

TEST(Progress, AWindowMayChangeItsWidth) {
  std::ostringstream stream;
  std::size_t columns = 80;
  Progress progress(stream, {true, [&] { return columns; }}, 3);
  progress.update(after(1), 0);
  EXPECT_NE(stream.str().find("tokens/s"), std::string::npos);
  stream.str("");
  columns = 11;
  progress.update(after(3), 1);
  EXPECT_EQ(stream.str(), "\r\x1b[2Kstep 3/3");
}

TEST(Progress, NotesStandBelowTheLine) {
  std::ostringstream stream;
  Progress progress(stream, {true}, 3);
  progress.update(after(1), 0);
  stream.str("");
  progress.note("saved");
  EXPECT_EQ(stream.str(), "\nsaved\n");
}

TEST(SavedLine, SaysWhatWasWrittenAndWhatLayThereAlready) {
  EXPECT_EQ(saved_line(40, {12 << 20, 3 << 20}), "saved after step 40: 12.0 MiB written, 3.00 MiB referenced");
  EXPECT_EQ(saved_line(7, {2048, 0}), "saved after step 7: 2.00 KiB written");
}

TEST(ProgressLine, ShowsLossSpeedAndTiers) {
  TrainRecord record = after(12);
  record.last.used_bytes = {12 << 20, 0, 0};
  record.last.budget_bytes = {64ull << 20, std::nullopt, 1ull << 30};
  EXPECT_EQ(progress_line(record, 100),
            "step 12/100  loss 2.5000  2000 tokens/s  device 12.0 MiB of 64.0 MiB  nvme 0 B of 1.00 GiB");
  record.grad_norms.assign(12, 1.0 / 3);
  EXPECT_EQ(progress_line(record, 100).substr(0, 53), "step 12/100  loss 2.5000  norm 0.3333  2000 tokens/s ");
}

}  // namespace
}  // namespace castor::train

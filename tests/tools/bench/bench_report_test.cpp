// SPDX-License-Identifier: Apache-2.0
#include "bench/io/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <sstream>

#include "bench/common/status_line.h"
#include "bench/io/tried.h"

namespace castor::bench {
namespace {

/// A run of one second.
Sample run_of(std::uint64_t n_bytes, double cpu_s = 0) { return {n_bytes, 1, cpu_s}; }

Round round_of(std::uint64_t ours, std::uint64_t ceiling, std::uint64_t again) {
  return {run_of(ours), run_of(ceiling), run_of(again)};
}

const IoCase kRead1MiB{Rw::read, 1048576, 1048576, 16};

bool contains(const std::vector<std::string>& lines, const std::string& text) {
  for (const std::string& line : lines)
    if (line.find(text) != std::string::npos) return true;
  return false;
}

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoThere) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

TEST(Shares, AreTakenRoundByRound) {
  // The drive halves its rate between the rounds: medians of the rates are then meaningless, those of the shares are
  // not.
  const Shares shares = summarize({round_of(900, 1000, 1000), round_of(480, 500, 550), round_of(190, 200, 180)});
  EXPECT_DOUBLE_EQ(*shares.share, 0.95);
  EXPECT_DOUBLE_EQ(*shares.share_min, 0.90);
  EXPECT_DOUBLE_EQ(*shares.share_max, 0.96);
  EXPECT_DOUBLE_EQ(*shares.ceiling_ratio, 1.0);
  EXPECT_DOUBLE_EQ(shares.ours, 480e-9);
  EXPECT_DOUBLE_EQ(*shares.ceiling, 500e-9);
}

TEST(Shares, TheBarIsMultipliedByTheCeilingsShareOfItself) {
  const Shares shares = summarize({round_of(95, 100, 97)});
  EXPECT_FALSE(shares.reaches(0.99));
  EXPECT_TRUE(shares.reaches(0.97));
}

TEST(Shares, AboveTheCeilingIsNoSuccess) {
  const Shares shares = summarize({round_of(104, 100, 100)});
  EXPECT_TRUE(shares.above_ceiling());
  EXPECT_FALSE(shares.reaches(0.97));
  EXPECT_FALSE(summarize({round_of(103, 100, 100)}).above_ceiling());
}

TEST(Shares, WithoutACeilingThereAreNone) {
  const Shares shares = summarize({{run_of(7), std::nullopt, std::nullopt}});
  EXPECT_EQ(shares.ours, 7e-9);
  EXPECT_FALSE(shares.ceiling || shares.share || shares.ceiling_ratio);
}

TEST(Shares, CpuTimePerGibibyte) {
  const Shares shares = summarize({{run_of(2147483648, 0.5), run_of(1073741824, 0.1), run_of(1, 0)}});
  EXPECT_DOUBLE_EQ(shares.ours_cpu_s_per_gib, 0.25);
  EXPECT_DOUBLE_EQ(*shares.ceiling_cpu_s_per_gib, 0.1);
}

TEST(ResultsJson, HasTheContractsFields) {
  IoReport report;
  report.results.push_back({kRead1MiB, "fio-9", {round_of(900000000, 1000000000, 990000000)}});
  const auto results = results_json(report);
  ASSERT_EQ(results.size(), 1u);
  const auto& one = results[0];
  EXPECT_EQ(one["name"], "read 1MiB");
  EXPECT_EQ(one["unit"], "GB/s");
  EXPECT_DOUBLE_EQ(one["value"], 0.9);
  EXPECT_DOUBLE_EQ(one["ceiling"], 1.0);
  EXPECT_EQ(one["ceiling_name"], "fio-9");
  for (const char* name : {"share", "min", "max"}) EXPECT_DOUBLE_EQ(one[name], 0.9) << name;
  EXPECT_EQ(one["runs"], 1);
  EXPECT_DOUBLE_EQ(one["ceiling_ratio"], 0.99);
  EXPECT_EQ(one["reached"], false);
  EXPECT_EQ(one["badly_measured"], false);
}

TEST(ResultsJson, WithoutACeilingItsFieldsAreNull) {
  IoReport report;
  report.results.push_back({kRead1MiB, "", {{run_of(5), std::nullopt, std::nullopt}}});
  const auto one = results_json(report)[0];
  for (const char* name : {"ceiling", "ceiling_name", "share", "min", "max", "reached"})
    EXPECT_TRUE(one[name].is_null()) << name;
}

TEST(ResultsJson, ThePageCacheIsAResult) {
  IoReport report;
  report.cache = CacheGrowth{2 * kGiB, 4 * kMiB, -1048576};
  const auto one = results_json(report)[0];
  EXPECT_EQ(one["name"], "page cache after put and get of 2GiB");
  EXPECT_DOUBLE_EQ(one["value"], 4);
  EXPECT_DOUBLE_EQ(one["ceiling"], 16);
  EXPECT_DOUBLE_EQ(one["share"], 0.25);
  EXPECT_DOUBLE_EQ(one["machine_cache_mib"], -1);
  EXPECT_EQ(one["reached"], true);
}

TEST(Verdict, NamesWhatWasMissedAndWhatCannotBe) {
  IoReport report;
  report.notes = {"a note"};
  report.results.push_back({kRead1MiB, "fio-9", {round_of(90, 100, 100)}});
  report.results.push_back({{Rw::write, 65536, 1048576, 16}, "fio-9", {round_of(90, 100, 100)}});
  report.results.push_back({{Rw::mixed, 1048576, 1048576, 16}, "fio-9", {round_of(110, 100, 100)}});
  const auto lines = verdict(report);
  EXPECT_EQ(lines.front(), "a note");
  EXPECT_TRUE(contains(lines, "read 1MiB: 0.900 of fio-9, less than the wanted 0.97 × 1.00"));
  EXPECT_TRUE(contains(lines, "mixed 1MiB: 1.10 of fio-9 is impossible, so the ceiling was measured badly"));
  EXPECT_FALSE(contains(lines, "write 64KiB:"));
  EXPECT_EQ(lines.back(), "1 of 3 cases reach the share of their ceiling that is wanted");
}

TEST(TableLine, ColumnsStandBelowTheirHeads) {
  const std::string line = table_line({kRead1MiB, "fio-9", {round_of(900000000, 1000000000, 990000000)}});
  EXPECT_EQ(line.rfind("read 1MiB ", 0), 0u);
  EXPECT_NE(line.find(" 0.900 ✗ 0.90–0.90"), std::string::npos) << line;
  EXPECT_EQ(line.find("1.00"), table_head().find(" ceiling") + 4) << line << "\n" << table_head();
}

TEST(StatusLine, LogHasALineEveryTwoSeconds) {
  std::ostringstream stream;
  StatusLine status(stream, false);
  for (const double now_s : {10.0, 11.0, 11.9, 12.1, 12.2}) status.show("at", now_s);
  status.clear();
  EXPECT_EQ(stream.str(), "at\nat\n");
}

TEST(StatusLine, TerminalIsRewrittenAndLeftEmpty) {
  std::ostringstream stream;
  StatusLine status(stream, true);
  status.show("a", 0);
  status.show("b", 0);
  status.clear();
  status.clear();
  EXPECT_EQ(stream.str(), "\r\x1b[2Ka\r\x1b[2Kb\r\x1b[2K");
}

TEST(SmallestGood, IsWithinThreeInAHundredOfTheFastest) {
  EXPECT_EQ(smallest_good({{4, 50, 50}, {8, 97, 97}, {16, 100, 100}, {32, 99, 99}}).setting, 8u);
  EXPECT_EQ(smallest_good({{4, 96, 96}, {8, 100, 100}}).setting, 8u);
  EXPECT_EQ(smallest_good({{8, 100, 100}, {4, 100, 100}}).setting, 4u);
}

TEST(SmallestGood, ReadsAndWritesCountAlike) {
  // 100 and 100 take 2 s per 100 bytes each way; 400 and 60 take 1.92 s; 400 and 50 take 2.25 s.
  EXPECT_EQ(smallest_good({{4, 400, 50}, {8, 100, 100}}).setting, 8u);
  EXPECT_EQ(smallest_good({{4, 100, 100}, {8, 400, 60}}).setting, 8u);
}

TEST(SmallestGood, NothingMovedIsNoRate) {
  EXPECT_EQ(smallest_good({{4, 0, 100}, {8, 1, 1}}).setting, 8u);
  EXPECT_THROW((void)smallest_good({}), ContractViolation);
}

}  // namespace
}  // namespace castor::bench

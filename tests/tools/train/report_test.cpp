// SPDX-License-Identifier: Apache-2.0
#include "train/report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

namespace castor::train {
namespace {

/// Six steps, two of them left out; in the other four, 400 bytes moved up, 4000 were read, waits took 1 s and updates
/// 0.6 s.
TrainRecord record() {
  TrainRecord record;
  record.n_params = 1000;
  record.groups = {{"*.bias", 2, 40, 0.5, 0.9, 0.99, 1e-8, 0}};
  record.tokens_per_step = 50;
  record.losses = {5, 4, 3.5, 3, 2.5, 2.25};
  record.lrs = {0.1, 0.2, 0.3, 0.2, 0.1, 1.0 / 3};
  record.step_s = {9, 8, 1, 4, 2, 3};
  record.warm.moved_bytes = {600, 10, 1000, 0};
  record.warm.wait_seconds = 2, record.warm.update_seconds = 1;
  record.last.moved_bytes = {1000, 10, 5000, 0};
  record.last.wait_seconds = 3, record.last.update_seconds = 1.6;
  record.last.peak_bytes = {64, 128, 256};
  record.last.budget_bytes[0] = 100;
  record.peak_rss_bytes = 4096;
  record.weights_digest = "00ff";
  return record;
}

TEST(StepTimes, LeavesTwoOutOfMoreThanFour) {
  const StepTimes times = step_times({9, 8, 1, 4, 2, 3});
  EXPECT_EQ(times.n_left_out, 2);
  EXPECT_EQ(times.median, 2.5);
  EXPECT_EQ(times.min, 1);
  EXPECT_EQ(times.max, 4);
  EXPECT_EQ(times.mean, 2.5);
}

TEST(StepTimes, FewStepsAllCount) {
  const StepTimes times = step_times({3, 1, 2});
  EXPECT_EQ(times.n_left_out, 0);
  EXPECT_EQ(times.median, 2);
  EXPECT_EQ(n_left_out(4), 0);
  EXPECT_EQ(n_left_out(5), 2);
}

TEST(StepTimes, NoStepsHaveNoTimes) { EXPECT_EQ(step_times({}).median, 0); }

TEST(MovedBytes, CountsTheStepsThatCount) {
  const auto moved = moved_bytes_per_step(record());
  EXPECT_EQ(moved[index(Link::h2d)], 100);
  EXPECT_EQ(moved[index(Link::d2h)], 0);
  EXPECT_EQ(moved[index(Link::nvme_read)], 1000);
}

TEST(BoundOf, ComputeIsWhatIsNeitherWaitNorUpdate) {
  const Bound bound = bound_of(record(), {});
  EXPECT_EQ(bound.by, "compute");
  EXPECT_NEAR(bound.seconds, 2.5 - (1 + 0.6) / 4, 1e-12);
  EXPECT_NEAR(bound.share, 2.1 / 2.5, 1e-12);
}

TEST(BoundOf, ASlowLinkBinds) {
  Rates rates;
  rates[index(Link::h2d)] = 100;        // 1 s
  rates[index(Link::nvme_read)] = 400;  // 2.5 s
  const Bound bound = bound_of(record(), rates);
  EXPECT_EQ(bound.by, "nvme_read");
  EXPECT_EQ(bound.seconds, 2.5);
  EXPECT_EQ(bound.share, 1);
}

TEST(BoundOf, IsWhatTheStrategyKnows) {
  TrainRecord known = record();
  known.last.bound = {2.25, "host_update"};
  const Bound bound = bound_of(known, {});
  EXPECT_EQ(bound.by, "host_update");
  EXPECT_EQ(bound.seconds, 2.25);
  EXPECT_EQ(bound.share, 0.9);
}

TEST(BoundOf, StaysWhereTheStrategyKnowsNoneForNow) {
  TrainRecord known = record();
  RunStats now = known.last;
  now.bound = {2.25, "host_update"};
  known.note(now);
  now.bound = {}, now.wait_seconds = 7;
  known.note(now);
  EXPECT_EQ(known.last.wait_seconds, 7);
  EXPECT_EQ(bound_of(known, {}).seconds, 2.25);
  EXPECT_EQ(bound_of(known, {}).by, "host_update");
}

TEST(BoundOf, NoStepsNoBound) { EXPECT_EQ(bound_of(TrainRecord(), {}).share, 0); }

TEST(WearOf, CountsWhatADayOfSuchStepsWrites) {
  TrainRecord worn = record();
  EXPECT_FALSE(wear_of(worn)) << "nothing was written";
  EXPECT_TRUE(report_json(worn, {})["wear"].is_null());
  worn.last.moved_bytes[3] = 4000;  // 1000 per step of 2.5 s
  EXPECT_EQ(wear_of(worn)->bytes_per_day, 400.0 * 86400);
  EXPECT_FALSE(wear_of(worn)->drive_writes_per_day);
  worn.drive_bytes = 86'400'000;
  EXPECT_EQ(wear_of(worn)->drive_writes_per_day, 0.4);
  EXPECT_EQ(report_json(worn, {})["wear"]["drive_writes_per_day"], 0.4);
  EXPECT_NE(report_text(worn, {}).find("a day of such steps: 33.0 MiB, 0.4 times the 82.4 MiB of its drives"),
            std::string::npos)
      << report_text(worn, {});
}

TEST(NineDigits, TellsAnyTwoFloatsApart) {
  EXPECT_EQ(nlohmann::json(nine_digits(2.3f)).dump(), "2.29999995");
  const float a = 5.5f, b = std::nextafter(a, 6.0f);
  EXPECT_NE(nine_digits(a), nine_digits(b));
  EXPECT_EQ(static_cast<float>(nine_digits(b)), b);
}

TEST(ReportJson, GroupsHaveTheValuesOfTheirOptimizer) {
  TrainRecord of_lars = record();
  of_lars.groups[0].optimizer = CASTOR_LARS;
  of_lars.groups[0].momentum = 0.75, of_lars.groups[0].trust_coefficient = 0.02;
  EXPECT_EQ(report_json(of_lars, {})["groups"][0],
            nlohmann::json::parse(R"({"selector": "*.bias", "tensors": 2, "params": 40, "lr": 0.5, "momentum": 0.75,
                                      "trust_coefficient": 0.02, "eps": 1e-8, "weight_decay": 0.0})"));
  of_lars.groups[0].optimizer = CASTOR_SGD;
  EXPECT_FALSE(report_json(of_lars, {})["groups"][0].contains("eps"));
}

TEST(ReportJson, NormsAreThereWhereTheyAreTaken) {
  TrainRecord clipped = record();
  EXPECT_TRUE(report_json(clipped, {})["grad_norms"].empty());
  EXPECT_EQ(report_text(clipped, {}).find("clipped"), std::string::npos);
  clipped.grad_norms = {1, 0.5, std::numeric_limits<double>::infinity(), 2, 0.25, 0.125};
  clipped.n_clipped = 2;
  const nlohmann::json object = nlohmann::json::parse(report_json(clipped, {}).dump());
  EXPECT_EQ(object["grad_norms"], nlohmann::json::parse("[1.0, 0.5, null, 2.0, 0.25, 0.125]"));
  EXPECT_EQ(object["clipped_steps"], 2);
  EXPECT_NE(report_text(clipped, {}).find("2 steps were clipped\n"), std::string::npos);
}

TEST(ReportJson, HasTheFieldsOfTheContract) {
  Rates rates;
  rates[index(Link::h2d)] = 100;
  const nlohmann::json object = report_json(record(), rates);
  EXPECT_EQ(object["params"], 1000);
  EXPECT_EQ(object["groups"], nlohmann::json::parse(R"([{"selector": "*.bias", "tensors": 2, "params": 40, "lr": 0.5,
                                                         "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.0}])"));
  EXPECT_EQ(object["losses"].size(), 6u);
  EXPECT_EQ(object["lr"].get<std::vector<double>>(), record().lrs);  // equal to the last bit
  EXPECT_EQ(object["step_s"], nlohmann::json::parse(R"({"median": 2.5, "min": 1.0, "max": 4.0, "n_left_out": 2,
                                                             "each": [9.0, 8.0, 1.0, 4.0, 2.0, 3.0]})"));
  EXPECT_EQ(object["tokens_per_s"], 20);
  EXPECT_EQ(object["peak_bytes"], nlohmann::json::parse(R"({"device": 64, "host": 128, "nvme": 256})"));
  EXPECT_EQ(object["peak_rss_bytes"], 4096);
  EXPECT_EQ(object["budget_bytes"], nlohmann::json::parse(R"({"device": 100, "host": null, "nvme": null})"));
  EXPECT_EQ(object["moved_bytes_per_step"],
            nlohmann::json::parse(R"({"h2d": 100, "d2h": 0, "nvme_read": 1000, "nvme_write": 0})"));
  EXPECT_EQ(object["bound"]["by"], "compute");
  EXPECT_EQ(object["weights_digest"], "00ff");
}

TEST(ReportText, NamesPeaksBudgetsAndBound) {
  const std::string text = report_text(record(), {});
  EXPECT_NE(text.find("loss 5.0000 to 2.2500, 20 tokens/s"), std::string::npos) << text;
  EXPECT_NE(text.find("device       64 B         100 B"), std::string::npos) << text;
  EXPECT_NE(text.find("host         128 B        no limit"), std::string::npos) << text;
  EXPECT_NE(text.find("bound 2.1000 s by compute: 84 % of the step"), std::string::npos) << text;
}

TEST(ReportText, ListsTheLinksThatCarriedSomething) {
  Rates rates;
  rates[index(Link::h2d)] = 2e9;
  const std::string text = report_text(record(), rates);
  EXPECT_NE(text.find("h2d          100 B        2.0 GB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("nvme_read    1000 B       not measured"), std::string::npos) << text;
  EXPECT_EQ(text.find("d2h"), std::string::npos) << text;
}

TEST(ReportText, SaysThatNothingWasMoved) {
  TrainRecord resident = record();
  resident.last.moved_bytes = resident.warm.moved_bytes;
  EXPECT_NE(report_text(resident, {}).find("nothing was moved between tiers"), std::string::npos);
}

/// Two saves, each of which moved 600 bytes to the NVMe tier and waited 2 s.
Saves two_saves() {
  RunStats before, after;
  before.moved_bytes = {5, 6, 7, 1000}, after.moved_bytes = {5, 6, 7, 1600};
  before.wait_seconds = 1, after.wait_seconds = 3;
  Saves saves;
  for (int i = 0; i < 2; ++i) saves.add({500, 40}, before, after);
  return saves;
}

TEST(Saves, WhatTheyMovedAndWaitedForIsNoneOfTheSteps) {
  RunStats counters;
  counters.moved_bytes = {10, 20, 30, 1300};
  counters.wait_seconds = 5, counters.update_seconds = 7;
  const RunStats left = two_saves().left_of(counters);
  EXPECT_EQ(left.moved_bytes, (std::array<std::uint64_t, kNLinks>{10, 20, 30, 100}));
  EXPECT_EQ(left.wait_seconds, 1);
  EXPECT_EQ(left.update_seconds, 7);
}

// The counted steps write nothing themselves; the saves are 200 bytes for each of six steps of 2.5 s.
TEST(WearOf, CountsTheSaves) {
  TrainRecord saving = record();
  saving.saves = two_saves();
  EXPECT_EQ(wear_of(saving)->bytes_per_day, 200 / 2.5 * 86400);
  const auto saves = report_json(saving, {})["saves"];
  EXPECT_EQ(saves, (nlohmann::json{{"count", 2}, {"written_bytes", 1000}, {"referenced_bytes", 80}}));
}

}  // namespace
}  // namespace castor::train

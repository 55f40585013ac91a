// SPDX-License-Identifier: Apache-2.0
#include "train/options/step_options.h"

#include <gtest/gtest.h>

#include "train/options/options.h"

namespace castor::train {
namespace {

using Kind = LrScheduleKind;

/// Reads the words of `line`.
Result<TrainOptions> read(const std::string& line) {
  cli::Arguments arguments = {"--model", "mlp"};
  for (const std::string& word : cli::split(line, ' ')) arguments.push_back(word);
  CASTOR_ASSIGN(const cli::Values values, cli::parse(train_syntax(), arguments));
  return read_options(values);
}

LrScheduleOptions schedule(const std::string& line) { return read(line).value().lr_schedule; }

std::string message_of(const std::string& line) {
  const auto options = read(line);
  EXPECT_FALSE(options.ok()) << line;
  if (options.ok()) return "";
  EXPECT_EQ(options.error().kind, ErrorKind::usage);
  return options.error().message;
}

TEST(ReadSchedule, ConstantUnlessAsked) {
  EXPECT_EQ(schedule("").kind, Kind::constant);
  EXPECT_EQ(schedule("").lr, 6e-4);
  EXPECT_EQ(schedule("--lr-schedule constant --warmup-steps 200").warmup_steps, 200);
}

TEST(ReadSchedule, DecaysOverTheStepsOfTheRun) {
  EXPECT_EQ(schedule("--lr-schedule cosine").decay_steps, 100);
  EXPECT_EQ(schedule("--lr-schedule cosine --steps 7").decay_steps, 7);
  EXPECT_EQ(schedule("--lr-schedule cosine --steps 7 --decay-steps 9").decay_steps, 9);
}

TEST(ReadSchedule, EveryOptionArrives) {
  const auto cosine = schedule("--lr 0.5 --lr-schedule cosine --warmup-steps 3 --decay-steps 50 --min-lr 0.25");
  EXPECT_EQ(cosine.kind, Kind::cosine);
  EXPECT_EQ(cosine.lr, 0.5);
  EXPECT_EQ(cosine.warmup_steps, 3);
  EXPECT_EQ(cosine.decay_steps, 50);
  EXPECT_EQ(cosine.min_lr, 0.25);
  const auto multistep = schedule("--lr-schedule multistep --milestones 100,200 --gamma 0.5");
  EXPECT_EQ(multistep.milestones, (std::vector<std::int64_t>{100, 200}));
  EXPECT_EQ(multistep.gamma, 0.5);
  EXPECT_EQ(schedule("--lr-schedule polynomial --power 3").power, 3);
  const auto onecycle = schedule("--lr-schedule onecycle --pct-start 0.5 --div-factor 5 --final-div-factor 50");
  EXPECT_EQ(onecycle.pct_start, 0.5);
  EXPECT_EQ(onecycle.div_factor, 5);
  EXPECT_EQ(onecycle.final_div_factor, 50);
}

TEST(ReadSchedule, AnUnknownScheduleIsRefusedByName) {
  EXPECT_EQ(message_of("--lr-schedule cosin"),
            "--lr-schedule takes constant|linear|cosine|multistep|onecycle|polynomial|exponential, not 'cosin'");
}

TEST(ReadSchedule, WhatHasNoEffectIsRefusedByName) {
  EXPECT_EQ(message_of("--min-lr 0"),
            "--min-lr has no effect with --lr-schedule constant; it belongs to linear, cosine and polynomial");
  EXPECT_EQ(message_of("--lr-schedule onecycle --warmup-steps 5"),
            "--warmup-steps has no effect with --lr-schedule onecycle; it belongs to constant, linear, cosine, "
            "multistep, polynomial and exponential");
  EXPECT_EQ(message_of("--lr-schedule cosine --gamma 0.5"),
            "--gamma has no effect with --lr-schedule cosine; it belongs to multistep and exponential");
  EXPECT_EQ(message_of("--lr-schedule linear --power 2"),
            "--power has no effect with --lr-schedule linear; it belongs to polynomial");
  for (const std::string option : {"decay-steps", "milestones", "pct-start", "div-factor", "final-div-factor"})
    EXPECT_EQ(message_of("--" + option + " 1").rfind("--" + option + " has no effect with --lr-schedule constant", 0),
              0u);
}

TEST(ReadSchedule, WhatAScheduleNeedsIsAskedFor) {
  EXPECT_EQ(message_of("--lr-schedule exponential"), "--lr-schedule exponential needs --gamma");
  EXPECT_EQ(message_of("--lr-schedule multistep --gamma 0.1"), "--lr-schedule multistep needs --milestones");
}

TEST(ReadSchedule, ValuesOutOfRangeAreRefusedByName) {
  EXPECT_EQ(message_of("--lr-schedule cosine --warmup-steps 100"),
            "--warmup-steps takes fewer than the decay's 100 steps, not 100");
  EXPECT_EQ(message_of("--lr-schedule cosine --lr 0.1 --min-lr 0.2"),
            "--min-lr takes a number from 0 to the learning rate, 0.1, not 0.2");
  EXPECT_EQ(message_of("--lr-schedule exponential --gamma 2"), "--gamma takes a number above 0, at most 1, not 2");
  EXPECT_EQ(message_of("--lr-schedule multistep --gamma 1 --milestones 5,4"),
            "--milestones takes steps in ascending order, each once, from 1 on, not 4");
  EXPECT_EQ(message_of("--lr-schedule multistep --gamma 1 --milestones 5,x"),
            "--milestones takes whole numbers separated by commas, not '5,x'");
  EXPECT_EQ(message_of("--lr-schedule onecycle --final-div-factor 0.5"),
            "--final-div-factor takes a number of 1 or more, not 0.5");
  EXPECT_EQ(message_of("--warmup-steps=-1"), "--warmup-steps takes a whole number from 0 to 1000000000, not '-1'");
}

TEST(ReadScaler, DefaultsAreThoseOfTheLibrary) {
  const GradScalerOptions scaler = read("--precision fp16").value().scaler, defaults;
  EXPECT_EQ(scaler.initial_scale, defaults.initial_scale);
  EXPECT_EQ(scaler.growth_interval, defaults.growth_interval);
  EXPECT_EQ(scaler.hysteresis, defaults.hysteresis);
  EXPECT_EQ(scaler.growth_factor, defaults.growth_factor);
  EXPECT_EQ(scaler.backoff_factor, defaults.backoff_factor);
  EXPECT_EQ(scaler.min_scale, defaults.min_scale);
  EXPECT_EQ(scaler.max_scale, defaults.max_scale);
}

TEST(ReadScaler, EveryOptionArrives) {
  const GradScalerOptions scaler =
      read(
          "--precision fp16 --initial-scale 1024 --growth-interval 7 --growth-factor 4 --hysteresis 3 "
          "--backoff-factor 0.25 --min-scale 8 --max-scale 4096")
          .value()
          .scaler;
  EXPECT_EQ(scaler.initial_scale, 1024);
  EXPECT_EQ(scaler.growth_interval, 7);
  EXPECT_EQ(scaler.hysteresis, 3);
  EXPECT_EQ(scaler.growth_factor, 4);
  EXPECT_EQ(scaler.backoff_factor, 0.25);
  EXPECT_EQ(scaler.min_scale, 8);
  EXPECT_EQ(scaler.max_scale, 4096);
}

TEST(ReadScaler, OnlyFp16HasAScale) {
  EXPECT_EQ(message_of("--initial-scale 8"),
            "--initial-scale has no effect with --precision bf16; only fp16 scales its loss");
  EXPECT_EQ(message_of("--precision fp32 --hysteresis 2"),
            "--hysteresis has no effect with --precision fp32; only fp16 scales its loss");
}

TEST(ReadScaler, ValuesOutOfRangeAreRefusedByName) {
  EXPECT_EQ(message_of("--precision fp16 --initial-scale 0.5"),
            "--initial-scale takes a number from 1 to 4294967296, not 0.5");
  EXPECT_EQ(message_of("--precision fp16 --max-scale 32768"),
            "--initial-scale takes a number from 1 to 32768, not 65536");
  EXPECT_EQ(message_of("--precision fp16 --growth-factor 1"), "--growth-factor takes a number above 1, not 1");
  EXPECT_EQ(message_of("--precision fp16 --backoff-factor 1"),
            "--backoff-factor takes a number above 0 and below 1, not 1");
  EXPECT_EQ(message_of("--precision fp16 --min-scale 4 --max-scale 2"),
            "--max-scale takes a number of 4 or more, not 2");
  EXPECT_EQ(message_of("--precision fp16 --hysteresis 0"),
            "--hysteresis takes a whole number from 1 to 1000000000, not '0'");
  EXPECT_EQ(message_of("--precision fp16 --growth-interval 0"),
            "--growth-interval takes a whole number from 1 to 1000000000, not '0'");
}

}  // namespace
}  // namespace castor::train

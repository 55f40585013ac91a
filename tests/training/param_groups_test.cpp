// SPDX-License-Identifier: Apache-2.0
#include <castor/training/param_groups.h>

#include <gtest/gtest.h>

#include <castor/plugins/call_need.h>

#include <algorithm>

namespace castor {
namespace {

constexpr std::int64_t kMatrix[] = {6, 4}, kVector[] = {6};

template <std::size_t N>
castor_param_info tensor(const char* name, const std::int64_t (&shape)[N]) {
  auto info = blank<castor_param_info>();
  info.flags = CASTOR_PARAM_TRAINABLE;
  info.name = name, info.shape = shape, info.ndim = N;
  info.dtype = {kDLFloat, 32, 1};
  info.numel = 1;
  for (const std::int64_t extent : shape) info.numel *= static_cast<std::uint64_t>(extent);
  return info;
}

castor_param_info matrix(const char* name) { return tensor(name, kMatrix); }
castor_param_info vector(const char* name) { return tensor(name, kVector); }

const std::vector<castor_param_info> kParams = {matrix("tokens.weight"),       matrix("blocks.0.qkv.weight"),
                                                vector("blocks.0.qkv.bias"),   vector("blocks.0.norm.weight"),
                                                matrix("blocks.1.qkv.weight"), vector("blocks.1.qkv.bias")};

castor_step_args others() {
  castor_step_args args = {};
  args.struct_size = sizeof args;
  args.beta1 = 0.9, args.beta2 = 0.999, args.eps = 1e-8, args.weight_decay = 0.01;
  return args;
}

using Groups = std::vector<ParamGroup>;

Result<ParamGroups> make(const Groups& groups, const LrScheduleOptions& schedule = {.lr = 0.25}) {
  return ParamGroups::make(groups, others(), schedule, kParams);
}

/// The step arguments that `groups` set for step `step`.
castor_step_args args_of(ParamGroups& groups, std::int64_t step) {
  castor_step_args args = others();
  groups.set(step, args);
  return args;
}

std::vector<std::uint32_t> group_of(ParamGroups& groups) {
  const castor_step_args args = args_of(groups, 0);
  return {args.group_of, args.group_of + kParams.size()};
}

std::string refusal(const Groups& wanted) {
  const auto groups = make(wanted);
  EXPECT_FALSE(groups.ok());
  if (groups.ok()) return "";
  EXPECT_EQ(groups.error().kind, ErrorKind::usage);
  return groups.error().message;
}

using Numbers = std::vector<std::uint32_t>;

TEST(ParamGroups, NoneAskedForLeavesTheStepAsItIs) {
  ParamGroups groups = make({}).value();
  EXPECT_EQ(args_of(groups, 0).n_groups, 0u);
  ASSERT_EQ(groups.summaries().size(), 1u);
  EXPECT_EQ(groups.summaries()[0].selector, "*");
  EXPECT_EQ(groups.summaries()[0].n_params, 3u * 24 + 3 * 6);
}

TEST(ParamGroups, TheFirstThatSelectsAParameterHasIt) {
  ParamGroups groups = make({{.selector = "blocks.1.*", .lr = 0.5}, {.selector = "*.bias", .weight_decay = 0}}).value();
  EXPECT_EQ(group_of(groups), (Numbers{2, 2, 1, 2, 0, 0}));
  EXPECT_EQ(groups.summaries()[0].n_params, 30u);
  EXPECT_EQ(groups.summaries()[1].n_params, 6u);
  EXPECT_EQ(groups.summaries()[2].n_tensors, 3u);
}

TEST(ParamGroups, VectorsAreWhatHasFewerThanTwoDimensions) {
  ParamGroups groups = make({{.selector = "vectors", .weight_decay = 0}}).value();
  EXPECT_EQ(group_of(groups), (Numbers{1, 1, 0, 0, 1, 0}));
}

TEST(ParamGroups, WhatAGroupLeavesOutIsEverybodys) {
  const Groups wanted_groups = {{.selector = "*.bias", .betas = {{0.5, 0.75}}},
                                {.selector = "*.norm.*", .lr = 0.125, .eps = 0.5, .weight_decay = 0}};
  ParamGroups groups = make(wanted_groups).value();
  const castor_step_args args = args_of(groups, 0);
  ASSERT_EQ(args.n_groups, 3u);
  const castor_param_group wanted[] = {
      {64, 0.25, 0.5, 0.75, 1e-8, 0.01}, {64, 0.125, 0.9, 0.999, 0.5, 0}, {64, 0.25, 0.9, 0.999, 1e-8, 0.01}};
  for (int i = 0; i < 3; ++i) {
    const castor_param_group& got = *args.groups[i];
    EXPECT_EQ(got.struct_size, wanted[i].struct_size);
    EXPECT_EQ(got.lr, wanted[i].lr) << i;
    EXPECT_EQ(got.beta1, wanted[i].beta1) << i;
    EXPECT_EQ(got.beta2, wanted[i].beta2) << i;
    EXPECT_EQ(got.eps, wanted[i].eps) << i;
    EXPECT_EQ(got.weight_decay, wanted[i].weight_decay) << i;
  }
}

TEST(ParamGroups, MomentumIsOfTheGroupOrEverybodys) {
  castor_step_args args = others();
  args.optimizer = CASTOR_SGD, args.momentum = 0.75;
  const Groups wanted = {{.selector = "*.bias", .momentum = 0.5}};
  ParamGroups groups = ParamGroups::make(wanted, args, {.lr = 0.25}, kParams).value();
  groups.set(0, args);
  ASSERT_EQ(args.n_groups, 2u);
  EXPECT_EQ(args.groups[0]->momentum, 0.5);
  EXPECT_EQ(args.groups[1]->momentum, 0.75);
  EXPECT_EQ(groups.summaries()[1].momentum, 0.75);
  EXPECT_EQ(groups.summaries()[1].optimizer, CASTOR_SGD);
}

TEST(ParamGroups, AllOthersAreNoGroupWhereThereAreNone) {
  ParamGroups groups = make({{.selector = "vectors", .lr = 1}, {.selector = "*.weight", .lr = 2}}).value();
  EXPECT_EQ(args_of(groups, 0).n_groups, 2u);
  EXPECT_EQ(groups.summaries().size(), 2u);
}

TEST(ParamGroups, RatesGoTheWayOfTheSchedule) {
  // The rate rises in 2 steps, then falls from 0.25 to 0.125 in 4; the group's rates are 4 times as large.
  LrScheduleOptions schedule{.kind = LrScheduleKind::linear, .lr = 0.25};
  schedule.warmup_steps = 2, schedule.decay_steps = 6, schedule.min_lr = 0.125;
  ParamGroups groups = make({{.selector = "*.bias", .lr = 1}}, schedule).value();
  const double rates[] = {0.125, 0.25, 0.25, 0.21875, 0.1875, 0.15625, 0.125, 0.125};
  for (int step = 0; step < 8; ++step) {
    const castor_step_args args = args_of(groups, step);
    EXPECT_EQ(args.groups[1]->lr, rates[step]) << step;
    EXPECT_EQ(args.groups[0]->lr, 4 * rates[step]) << step;
  }
}

TEST(ParamGroups, TheSameRateHasTheSameBits) {
  for (const LrScheduleKind kind : {LrScheduleKind::cosine, LrScheduleKind::onecycle, LrScheduleKind::polynomial}) {
    LrScheduleOptions schedule{.kind = kind, .lr = 3e-4};
    schedule.decay_steps = 50, schedule.min_lr = 1e-5;
    ParamGroups groups = make({{.selector = "*.bias", .lr = 3e-4}}, schedule).value();
    for (int step = 0; step < 50; ++step)
      EXPECT_EQ(args_of(groups, step).groups[0]->lr, args_of(groups, step).groups[1]->lr);
  }
}

TEST(ParamGroups, AGroupLearnsWhereTheOthersDoNot) {
  ParamGroups groups = make({{.selector = "*.bias", .lr = 0.5}}, {.lr = 0}).value();
  EXPECT_EQ(args_of(groups, 3).groups[0]->lr, 0.5);
  EXPECT_EQ(args_of(groups, 3).groups[1]->lr, 0);
}

TEST(ParamGroups, ASelectorThatSelectsNothingIsRefusedWithANearOne) {
  const std::string none = "selects none of the 6 parameters of the model; the first is 'tokens.weight'";
  const auto refused = [](const std::string& selector) { return refusal({{.selector = selector, .lr = 0}}); };
  EXPECT_EQ(refused("*.bais"), "`groups` *.bais: " + none + "; did you mean '*.bias'?");
  EXPECT_EQ(refused("block.0.*"), "`groups` block.0.*: " + none + "; did you mean 'blocks.0.*'?");
  EXPECT_EQ(refused("vector"), "`groups` vector: " + none + "; did you mean 'vectors'?");
  EXPECT_EQ(refused("token.weight"), "`groups` token.weight: " + none + "; did you mean 'tokens.weight'?");
  EXPECT_EQ(refused("conv*"), "`groups` conv*: " + none);
}

TEST(ParamGroups, ARefusalCarriesTheOption) {
  EXPECT_EQ(make({{.selector = "*.bais", .lr = 0}}, {}).error().option, "groups");
}

TEST(ParamGroups, AGroupBehindOneThatTakesAllIsRefused) {
  EXPECT_EQ(refusal({{.selector = "vectors", .lr = 0}, {.selector = "*.bias", .lr = 1}}),
            "`groups` *.bias: the groups before it have every parameter that it selects; the first one counts");
}

}  // namespace
}  // namespace castor

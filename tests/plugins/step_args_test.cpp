// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/step_args.h>

#include <gtest/gtest.h>

#include <limits>

namespace castor {
namespace {

constexpr castor_param_group kSlow = {sizeof kSlow, 0.125, 0.5, 0.75, 1e-4, 0},
                             kFast = {sizeof kFast, 2, 0.25, 0.875, 1e-6, 0.5};
constexpr const castor_param_group* kGroups[] = {&kSlow, &kFast};
constexpr std::uint32_t kGroupOf[] = {1, 0, 1};

castor_step_args plain() {
  castor_step_args args = {};
  args.struct_size = sizeof args;
  args.optimizer = CASTOR_ADAMW;
  args.lr = 1, args.beta1 = 0.9, args.beta2 = 0.99, args.eps = 1e-8, args.weight_decay = 0.1;
  args.loss_scale = 1;
  return args;
}

castor_step_args grouped() {
  castor_step_args args = plain();
  args.n_groups = 2, args.groups = kGroups, args.group_of = kGroupOf;
  return args;
}

std::string refusal(const castor_step_args& args) {
  const auto checked = check_step_args(args, 3);
  EXPECT_FALSE(checked.ok());
  if (checked.ok()) return "";
  EXPECT_EQ(checked.error().kind, ErrorKind::usage);
  return checked.error().message;
}

TEST(StepArgs, WithoutGroupsEveryParameterHasTheValuesOfTheStep) {
  castor_step_args args = plain();
  args.max_norm = 5, args.loss_scale = 8;
  const auto options = step_options(args, 3);
  EXPECT_EQ(options.of(ParamId{2}), UpdateOptions(AdamOptions{1, 0.9, 0.99, 1e-8, 0.1, true, 0}));
  EXPECT_EQ(options.max_norm, 5);
  EXPECT_EQ(options.loss_scale, 8);
  EXPECT_TRUE(options.needs_norm());
}

TEST(StepArgs, EachParameterHasTheValuesOfItsGroup) {
  castor_step_args args = grouped();
  args.optimizer = CASTOR_ADAM;
  args.max_value = 0.25;
  const auto options = step_options(args, 3);
  EXPECT_EQ(options.of(ParamId{0}), UpdateOptions(AdamOptions{2, 0.25, 0.875, 1e-6, 0.5, false, 0.25}));
  EXPECT_EQ(options.of(ParamId{1}), UpdateOptions(AdamOptions{0.125, 0.5, 0.75, 1e-4, 0, false, 0.25}));
  EXPECT_EQ(options.of(ParamId{2}), options.of(ParamId{0}));
  EXPECT_FALSE(options.needs_norm()) << "clipping by value needs none";
}

castor_step_args of_sgd(castor_step_args args) {
  args.optimizer = CASTOR_SGD;
  args.momentum = 0.875, args.nesterov = 1, args.max_value = 0.25;
  return args;
}

TEST(StepArgs, SgdHasMomentumOfTheStepOrTheGroup) {
  EXPECT_EQ(step_options(of_sgd(plain()), 3).of(ParamId{1}),
            UpdateOptions(SgdOptions{1, 0.875, 0.1, true, 0.25, 0, 1e-8}));
  castor_param_group fast = kFast;
  fast.momentum = 0.5;
  const castor_param_group* const groups[] = {&kSlow, &fast};
  castor_step_args args = of_sgd(grouped());
  args.groups = groups;
  EXPECT_EQ(step_options(args, 3).of(ParamId{0}), UpdateOptions(SgdOptions{2, 0.5, 0.5, true, 0.25, 0, 1e-6}));
  EXPECT_EQ(step_options(args, 3).of(ParamId{1}), UpdateOptions(SgdOptions{0.125, 0, 0, true, 0.25, 0, 1e-4}));
}

TEST(StepArgs, LarsHasTrustOfTheStepOrTheGroupAndClampsNothing) {
  castor_step_args args = plain();
  args.optimizer = CASTOR_LARS;
  args.trust_coefficient = 0.5;
  const auto options = step_options(args, 3);
  EXPECT_EQ(options.of(ParamId{1}), UpdateOptions(SgdOptions{1, 0, 0.1, false, 0, 0.5, 1e-8}));
  EXPECT_TRUE(options.needs_trust());
  args.optimizer = CASTOR_SGD;
  EXPECT_FALSE(step_options(args, 3).needs_trust());
  castor_param_group trusted = kFast;
  trusted.trust_coefficient = 0.25;
  const castor_param_group* const groups[] = {&kSlow, &trusted};
  args = grouped();
  args.optimizer = CASTOR_LARS;
  args.groups = groups;
  EXPECT_TRUE(step_options(args, 3).needs_trust());
  EXPECT_TRUE(trust_terms(step_options(args, 3).of(ParamId{0}), 1));
  EXPECT_FALSE(trust_terms(step_options(args, 3).of(ParamId{1}), 1));
  args.max_value = 0.5;
  EXPECT_EQ(refusal(args),
            "the step clips gradients to values of 0.500000, and LARS measures them as they are; set max_value to 0");
}

TEST(StepArgs, LambHasTheValuesOfAdamAndClampsNothing) {
  castor_step_args args = plain();
  args.optimizer = CASTOR_LAMB;
  const auto options = step_options(args, 3);
  EXPECT_EQ(options.of(ParamId{1}), UpdateOptions(LambOptions{1, 0.9, 0.99, 1e-8, 0.1}));
  EXPECT_TRUE(options.needs_trust());
  EXPECT_TRUE(options.measures_direction());
  args = grouped();
  args.optimizer = CASTOR_LAMB;
  EXPECT_EQ(step_options(args, 3).of(ParamId{0}), UpdateOptions(LambOptions{2, 0.25, 0.875, 1e-6, 0.5}));
  EXPECT_EQ(step_options(args, 3).of(ParamId{1}), UpdateOptions(LambOptions{0.125, 0.5, 0.75, 1e-4, 0}));
  args.max_value = 0.5;
  EXPECT_EQ(refusal(args),
            "the step clips gradients to values of 0.500000, and LAMB takes them as they are; set max_value to 0");
}

TEST(StepArgs, AnOptimizerThatIsNotThereIsRefused) {
  castor_step_args args = plain();
  args.optimizer = CASTOR_LAMB + 1;
  EXPECT_EQ(refusal(args), "the step is one of optimizer 5, this version knows 0 to 4");
}

TEST(StepArgs, StepsOfOtherGroupsDiffer) {
  const std::uint32_t others[] = {1, 1, 1};
  castor_step_args args = grouped();
  EXPECT_EQ(step_options(args, 3), step_options(grouped(), 3));
  args.group_of = others;
  EXPECT_NE(step_options(args, 3), step_options(grouped(), 3));
  EXPECT_NE(step_options(plain(), 3), step_options(grouped(), 3));
}

TEST(StepArgs, ClippingInTwoWaysIsRefused) {
  castor_step_args args = plain();
  args.max_value = 0.5, args.max_norm = 1;
  EXPECT_EQ(refusal(args),
            "the step clips gradients to a norm of 1.000000 and to values of 0.500000; set max_norm or max_value to 0");
  args.max_norm = 0;
  EXPECT_TRUE(check_step_args(args, 3).ok());
  for (const double wrong : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    args.max_value = wrong;
    EXPECT_EQ(refusal(args).rfind("clipping by value takes a max_value of 0 (off) or more", 0), 0u);
  }
}

TEST(StepArgs, GroupsThatAreNotThereAreRefused) {
  EXPECT_TRUE(check_step_args(grouped(), 3).ok());
  castor_step_args args = grouped();
  args.n_groups = 1;
  EXPECT_EQ(refusal(args), "parameter 0 is in group 1, the step has 1");
  args = grouped();
  args.group_of = nullptr;
  EXPECT_EQ(refusal(args), "the step has 2 groups of parameters, but lacks the groups or the group of each parameter");
  castor_param_group short_one = kFast;
  short_one.struct_size = 40;  // version 1.5 has 48
  const castor_param_group* const with_short[] = {&kSlow, &short_one};
  args = grouped();
  args.groups = with_short;
  EXPECT_EQ(refusal(args), "group 1 of the step is null or shorter than version 2.0 has it");
}

/// `plain`, where `set` has changed a value.
template <typename Set>
std::string refusal_where(std::uint32_t optimizer, const Set& set) {
  castor_step_args args = plain();
  args.optimizer = optimizer;
  set(args);
  return refusal(args);
}

TEST(StepArgs, ValuesOutOfRangeAreRefusedByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refusal_where(CASTOR_ADAMW, [](auto& args) { args.lr = -1; }),
            "lr takes a finite number of 0 or more, not -1.000000");
  EXPECT_EQ(refusal_where(CASTOR_SGD, [=](auto& args) { args.lr = nan; }),
            "lr takes a finite number of 0 or more, not nan");
  EXPECT_EQ(refusal_where(CASTOR_ADAM, [](auto& args) { args.beta1 = 1; }),
            "beta1 takes a number from 0 to below 1, not 1.000000");
  EXPECT_EQ(refusal_where(CASTOR_LAMB, [](auto& args) { args.beta2 = -0.5; }),
            "beta2 takes a number from 0 to below 1, not -0.500000");
  EXPECT_EQ(refusal_where(CASTOR_LARS, [=](auto& args) { args.eps = inf; }),
            "eps takes a finite number of 0 or more, not inf");
  EXPECT_EQ(refusal_where(CASTOR_ADAMW, [](auto& args) { args.weight_decay = -2; }),
            "weight_decay takes a finite number of 0 or more, not -2.000000");
  EXPECT_EQ(refusal_where(CASTOR_SGD, [](auto& args) { args.momentum = 1; }),
            "momentum takes a number from 0 to below 1, not 1.000000");
  EXPECT_EQ(refusal_where(CASTOR_LARS, [](auto& args) { args.trust_coefficient = -1; }),
            "trust_coefficient takes a finite number of 0 or more, not -1.000000");
  EXPECT_EQ(refusal_where(CASTOR_ADAMW, [](auto& args) { args.max_norm = -1; }),
            "max_norm takes 0 (off) or more, not -1.000000");
}

TEST(StepArgs, ALossScaleOf0IsRefused) {
  const std::string takes = "loss_scale takes the number by which the loss was multiplied, 1 where it was not, not ";
  EXPECT_EQ(refusal_where(CASTOR_ADAMW, [](auto& args) { args.loss_scale = 0; }), takes + "0.000000");
  EXPECT_EQ(refusal_where(CASTOR_ADAMW, [](auto& args) { args.loss_scale = -2; }), takes + "-2.000000");
}

TEST(StepArgs, ValuesThatTheOptimizerDoesNotLookAtMayBeAnything) {
  castor_step_args args = of_sgd(plain());
  args.beta1 = 7, args.eps = -1, args.trust_coefficient = -1;
  EXPECT_TRUE(check_step_args(args, 3).ok());
  args = plain();
  args.momentum = 7;
  EXPECT_TRUE(check_step_args(args, 3).ok());
}

TEST(StepArgs, OfGroupsTheirOwnValuesAreChecked) {
  castor_step_args args = grouped();
  args.lr = -1, args.beta1 = 7;
  EXPECT_TRUE(check_step_args(args, 3).ok());
  castor_param_group wrong = kFast;
  wrong.beta2 = 1;
  const castor_param_group* const groups[] = {&kSlow, &wrong};
  args.groups = groups;
  EXPECT_EQ(refusal(args), "group 1 of the step: beta2 takes a number from 0 to below 1, not 1.000000");
  EXPECT_EQ(check_step_args(args, 3).error().option, "beta2");
}

}  // namespace
}  // namespace castor

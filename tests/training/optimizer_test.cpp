// SPDX-License-Identifier: Apache-2.0
#include <castor/training/optimizer.h>

#include <gtest/gtest.h>

#include <castor/plugins/step_args.h>

namespace castor {
namespace {

UpdateOptions update_of(const castor_step_args& args) { return step_options(args, 1).update; }

// The defaults are those that torch.optim prints: AdamW (0.001, (0.9, 0.999), 1e-08, 0.01), Adam without decay, SGD
// without momentum.
TEST(Optimizer, HasTheDefaultsOfTorch) {
  EXPECT_EQ(update_of(AdamW{}), UpdateOptions(AdamOptions{0.001, 0.9, 0.999, 1e-8, 0.01, true, 0}));
  EXPECT_EQ(update_of(Adam{}), UpdateOptions(AdamOptions{0.001, 0.9, 0.999, 1e-8, 0, false, 0}));
  EXPECT_EQ(update_of(Sgd{}), UpdateOptions(SgdOptions{0.001, 0, 0, false, 0, 0, 0}));
}

TEST(Optimizer, FieldsBecomeTheArgumentsOfAStep) {
  EXPECT_EQ(update_of(AdamW{.lr = 6e-4, .betas = {0.5, 0.75}, .eps = 1e-3, .weight_decay = 0.25}),
            UpdateOptions(AdamOptions{6e-4, 0.5, 0.75, 1e-3, 0.25, true, 0}));
  EXPECT_EQ(update_of(Sgd{.lr = 2, .momentum = 0.5, .weight_decay = 0.25, .nesterov = true}),
            UpdateOptions(SgdOptions{2, 0.5, 0.25, true, 0, 0, 0}));
  EXPECT_EQ(update_of(Lars{.lr = 2, .momentum = 0.5, .weight_decay = 0.25, .trust_coefficient = 0.125, .eps = 1e-3}),
            UpdateOptions(SgdOptions{2, 0.5, 0.25, false, 0, 0.125, 1e-3}));
  EXPECT_EQ(update_of(Lamb{.lr = 2, .betas = {0.5, 0.75}, .eps = 1e-3, .weight_decay = 0.25}),
            UpdateOptions(LambOptions{2, 0.5, 0.75, 1e-3, 0.25}));
}

TEST(Optimizer, EachIsAStepThatNothingClipsAndNothingScales) {
  for (const Optimizer& optimizer :
       {Optimizer(AdamW{}), Optimizer(Adam{}), Optimizer(Sgd{}), Optimizer(Lars{}), Optimizer(Lamb{})}) {
    const castor_step_args args = step_args(optimizer);
    EXPECT_TRUE(check_step_args(args, 1).ok()) << optimizer.index();
    EXPECT_EQ(args.struct_size, sizeof args);
    EXPECT_EQ(args.loss_scale, 1);
    EXPECT_EQ(args.max_norm, 0);
    EXPECT_EQ(args.n_groups, 0u);
  }
}

}  // namespace
}  // namespace castor

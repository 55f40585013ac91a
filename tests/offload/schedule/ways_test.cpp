// SPDX-License-Identifier: Apache-2.0
// Iterations that alternate between two kinds: after steps whose norm was small enough, and after others.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../../support/seeds.h"
#include "regular_training.h"

namespace castor::testing {
namespace {

/// Steps of a training whose norm is too large now and then, with the trace of each kind when it was first recorded.
class ClippedNowAndThen {
 public:
  explicit ClippedNowAndThen(std::uint64_t seed) : team_(make_host_team(2).value()), training_(seed, *team_) {}

  /// A step whose norm is small enough, with speculative updates if `speculative`.
  void below(bool speculative) {
    training_.clip_to(RegularTraining::kMaxNorms[2]);
    training_.step();
    auto& first = first_[speculative ? 1 : 0];
    if (!first)
      first = training_.trace();
    else
      expect_planned(*first, speculative ? "speculative" : "not speculative");
  }
  /// A step whose norm is too large after all, which leaves the traces unchanged.
  void above() {
    training_.clip_to(RegularTraining::kMaxNorms[1]);
    training_.step();
    expect_planned(*first_[1], "too large");
  }
  void expect_same_bits() { training_.world().expect_same_bits(); }

 private:
  void expect_planned(const AccessTrace& expected, const std::string& which) {
    EXPECT_TRUE(training_.trace().same_accesses(expected)) << which;
    EXPECT_TRUE(training_.world().scheduler.plan() != nullptr) << which;
  }

  std::unique_ptr<HostTeam> team_;
  RegularTraining training_;
  std::optional<AccessTrace> first_[2];
};

TEST(Ways, StepsAreRecordedAndPlannedByWhetherUpdatesAreSpeculative) {
  for (std::uint64_t seed = 0; seed < test::n_seeds(15) && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ClippedNowAndThen training(seed);
    training.below(false);
    for (int i = 0; i < 3; ++i) training.below(true);
    for (int n_waiting = 2; n_waiting <= 8; n_waiting *= 2) {  // NormForecast's
      training.above();
      for (int i = 0; i < n_waiting; ++i) training.below(false);
      for (int i = 0; i < 3; ++i) training.below(true);
    }
    training.expect_same_bits();
  }
}

}  // namespace
}  // namespace castor::testing

// SPDX-License-Identifier: Apache-2.0
// A rehearsed step against iterations that really ran, and by hand.
#include <castor/optimizer/rehearsal.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "../../support/seeds.h"
#include "../schedule/regular_training.h"

namespace castor::testing {
namespace {

TEST(Rehearsal, StepsGoAsRehearsed) {
  for (std::uint64_t seed = 0; seed < test::n_seeds(40) && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto team = make_host_team(2).value();
    RegularTraining training(seed, *team);
    for (int i = 0; i < 3; ++i) training.step();
    EXPECT_TRUE(training.rehearse().trace.same_accesses(training.trace())) << "as it is";
    const AccessTrace without = training.trace();
    for (int share = 0; share < 2; ++share) {  // the second share too is rehearsed with the times without streams
      training.stream_a_third();
      const AccessTrace forecast = timed_as(without, training.rehearse(), {});
      training.world().scheduler.expect(forecast);
      EXPECT_NE(plan_of(training.world().scheduler), nullptr);
      EXPECT_TRUE(training.world().scheduler.bound()) << "of the forecast's times";
      for (int i = 0; i < 3; ++i) {
        training.step();
        EXPECT_TRUE(training.trace().same_accesses(forecast)) << "iteration " << i;
        EXPECT_TRUE(training.world().scheduler.plan() != nullptr) << "iteration " << i;
      }
    }
    training.world().expect_same_bits();
  }
}

/// Times are those of the same moments; chunks of activations are renumbered.
TEST(Rehearsal, MomentsThatBothHaveTakeAsLong) {
  const std::vector<Need> reads = {{ChunkId{10}, Tier::device, Access::read}};
  AccessTrace recorded;
  recorded.add({MomentKind::forward, 0}, reads);
  recorded.add({MomentKind::forward, 0}, reads);
  recorded.add({MomentKind::update, 1, /*beside=*/true}, std::vector<Need>{{ChunkId{0}, Tier::host, Access::update}});
  recorded.set_seconds({{1, 2, 3}, {0.1, 0.2, 0.3}});
  Rehearsal step;
  step.trace.add({MomentKind::update, 1}, std::vector<Need>{{ChunkId{0}, Tier::device, Access::update}});
  step.trace.add({MomentKind::forward, 0}, reads);
  step.trace.add_need({ChunkId{11}, Tier::device, Access::overwrite});
  step.trace.add_arrival(ChunkId{11}, 64);
  step.trace.add({MomentKind::forward, 0}, std::vector<Need>{{ChunkId{11}, Tier::device, Access::read}});
  step.trace.drop(ChunkId{11});
  step.problem.chunks.resize(12);
  step.problem.chunks[ChunkId{0}].n_bytes = 5'000'000;
  step.activations = {ChunkId{11}};
  const std::vector<ChunkId> in_training = {ChunkId{25}};
  const AccessTrace made = timed_as(recorded, step, in_training);
  EXPECT_EQ(made.seconds().compute, (std::vector<double>{2 * 5e6 / 1e12, 1, 2})) << "a GPU's update moves 1 TB/s";
  EXPECT_EQ(made.seconds().thread[1], 0.1);
  EXPECT_EQ(made.seconds().thread[2], 0.2);
  EXPECT_EQ(made.arriving_bytes(1, ChunkId{25}), 64);
  EXPECT_TRUE(made.dropped(2, ChunkId{25}));
  EXPECT_EQ(made.needs(2)[0], (Need{ChunkId{25}, Tier::device, Access::read}));
}

/// Units 0 and 1, each with a tensor that is a chunk of one tile: payloads 0 and 2, states 1 and 3, gradients 4 and 7.
class ByHand : public ::testing::Test {
 protected:
  using Kind = StepCall::Kind;

  ByHand() {
    for (const std::uint32_t unit : {0, 1}) call(Kind::forward, unit), call(Kind::end_forward, unit);
    call(Kind::announce);
    for (const std::uint32_t unit : {1, 0})
      call(Kind::backward, unit), call(Kind::gradient, unit), call(Kind::end_backward, unit);
    call(Kind::end_of_backward);
    placement_.states = {Tier::host, Tier::host};
    placement_.streamed = {false, false};
    placement_.speculative = {false, false};
    placement_.payload_off_device = {false, false};
  }
  void call(Kind kind, std::uint32_t id = 0) { script_.push_back({kind, id, 0}); }

  /// A letter for the kind, the number, `b` beside the thread.
  std::string moments(const StepOptions& options, bool plain_norms = true) {
    made_ =
        rehearse({layout_, order_, units_, script_, {}, /*overlap=*/true, plain_norms}, placement_, options).value();
    std::string text;
    for (std::uint64_t m = 0; m < made_.trace.n_moments(); ++m) {
      const Moment& moment = made_.trace.moment(m);
      text += std::string(name(moment.kind), 1) + std::to_string(moment.id) + (moment.beside ? "b " : " ");
    }
    return text;
  }
  static StepOptions adam(double max_norm) {
    StepOptions options;
    options.update = AdamOptions{};
    options.max_norm = max_norm;
    return options;
  }

  const std::vector<TensorSpec> tensors_ = {{1000, DType::bf16, true, UnitId{0}}, {1000, DType::bf16, true, UnitId{1}}};
  const ChunkLayout layout_ = plan_layout(tensors_, {2048});
  const IndexedVector<RegisteredId, TensorId> order_ = {TensorId{0}, TensorId{1}};
  const IndexedVector<UnitId, std::vector<PayloadId>> units_ = {{PayloadId{0}}, {PayloadId{1}}};
  StepScript script_;
  StatePlacement placement_;
  Rehearsal made_;
};

TEST_F(ByHand, WithoutANormUpdatesComeDuringBackward) {
  ASSERT_EQ(layout_.chunks.size(), 2u);
  EXPECT_EQ(moments(adam(0)), "f0 f1 b1 u1b b0 u0b ");
  EXPECT_EQ(made_.trace.needs(3)[0], (Need{ChunkId{3}, Tier::host, Access::update}));
  EXPECT_EQ(made_.trace.needs(3)[1], (Need{ChunkId{7}, Tier::host, Access::read}));
  EXPECT_EQ(made_.trace.needs(3)[2], (Need{ChunkId{2}, Tier::host, Access::overwrite}));
  EXPECT_EQ(made_.trace.arriving_bytes(2, ChunkId{7}), 2000u);
  EXPECT_TRUE(made_.trace.dropped(3, ChunkId{7}));
}

TEST_F(ByHand, WithANormTheyComeAfterIt) {
  EXPECT_EQ(moments(adam(1)), "f0 f1 b1 b0 n0 u0b u1b ");
}

TEST_F(ByHand, SpeculativeOnesComeBeforeItWhereNormsAreKnownToScaleNothing) {
  placement_.speculative = {true, true};
  EXPECT_EQ(moments(adam(1)), "f0 f1 b1 u1b b0 u0b n0 ");
  EXPECT_EQ(moments(adam(1), /*plain_norms=*/false), "f0 f1 b1 b0 n0 u0b u1b ");
}

TEST_F(ByHand, StreamedStatesAreUpdatedAtTheNextUse) {
  placement_.streamed = {false, true};
  EXPECT_EQ(moments(adam(1)), "f0 u1 f1 b1 b0 n0 u0b ");
  EXPECT_EQ(made_.trace.needs(1)[0], (Need{ChunkId{3}, Tier::device, Access::update}));
  EXPECT_EQ(made_.trace.arriving_bytes(3, ChunkId{7}), 0u) << "its gradient stays on the device";
  EXPECT_EQ(made_.trace.arriving_bytes(4, ChunkId{4}), 2000u);
}

TEST_F(ByHand, KeptActivationsBelongToTheMomentBefore) {
  script_.insert(script_.begin() + 2, {Kind::keep, 0, 300});
  script_.insert(script_.end() - 4, {{Kind::recall, 0, 0}});
  script_.insert(script_.end() - 1, {Kind::forget, 0, 0});
  EXPECT_EQ(moments(adam(0)), "f0 f1 b1 u1b b0 u0b ");
  ASSERT_EQ(made_.activations.size(), 1u);
  const ChunkId kept = made_.activations[0];
  EXPECT_EQ(made_.problem.chunks[kept].n_bytes, 300u);
  EXPECT_EQ(made_.trace.needs(0).back(), (Need{kept, Tier::device, Access::overwrite}));
  std::vector<std::uint64_t> uses;
  for (const ChunkUse& use : made_.problem.chunks[kept].uses) uses.push_back(use.moment);
  EXPECT_EQ(uses.front(), 0u);
  EXPECT_TRUE(made_.problem.chunks[kept].uses.back().dropped);
}

TEST_F(ByHand, CallsThatAreNoStepAreRefused) {
  script_.insert(script_.begin(), {Kind::keep, 0, 300});
  const auto refused =
      rehearse({layout_, order_, units_, script_, {}, true, true}, placement_, adam(0));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace castor::testing

// SPDX-License-Identifier: Apache-2.0
// Which passes of units belong to a step, as the engine records it for a rehearsal.
#include "unit_passes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "fake_model_host.h"
#include "model_values.h"
#include "placer.h"
#include "small_training.h"

namespace castor {
namespace {

using test::SmallTraining;
using Units = std::vector<std::uint32_t>;

/// The rooms of an engine on the host, and the passes of its units.
class UnitPassesTest : public ::testing::Test {
 protected:
  UnitPassesTest() {
    Placer(*rooms_).place_first().value();
    rooms_->calls.start();
  }

  void forward(const Units& units) {
    for (const std::uint32_t unit : units) {
      passes_.begin_forward(UnitId{unit}).value();
      passes_.end_forward(UnitId{unit});
    }
  }
  void backward(const Units& units) {
    for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
      passes_.begin_backward(UnitId{*unit}).value();
      passes_.end_backward(UnitId{*unit});
    }
    passes_.end_micro_batch();
  }
  /// A step with one gradient for each unit.
  void end_step() {
    for (const ParamId param : rooms_->model.params.ids())
      rooms_->optimizer->add_gradient(rooms_->tensor_of(param), {gradient_.data(), nullptr}).value();
    passes_.end_step();
    const StepOptions options{AdamOptions{}, 0, 1};
    rooms_->optimizer->step(options).value();
    rooms_->calls.end_step(options);
  }
  void train(const Units& units) {
    forward(units);
    backward(units);
    end_step();
  }
  /// The units of the last step's forward passes.
  Units recorded() const {
    Units units;
    for (const StepCall& call : rooms_->calls.last().script)
      if (call.kind == StepCall::Kind::forward) units.push_back(call.id);
    return units;
  }

  static inline const Units kAll = {0, 1, 2, 3};
  const SmallTraining training_;
  const std::vector<std::uint16_t> gradient_ = std::vector<std::uint16_t>(4096, 0x3f80);  // ones in bf16
  const std::unique_ptr<test::FakeModelHost> host_ = training_.make_host();
  const std::unique_ptr<EngineRooms> rooms_ = EngineRooms::make(*host_, training_.options(), this_machine()).value();
  LentWeights lent_{*rooms_};
  ModelValues values_{{rooms_->host, rooms_->model, rooms_->place_of, rooms_->timeline, rooms_->optimizer->io(),
                       rooms_->optimizer->gradients(), *rooms_->bindings, lent_}};
  UnitPasses passes_{*rooms_, values_, lent_};
};

TEST_F(UnitPassesTest, OfOneStepAreRecorded) {
  train(kAll);
  EXPECT_EQ(recorded(), kAll);
}

TEST_F(UnitPassesTest, OfAnEvaluationBetweenTwoStepsAreNotRecorded) {
  train(kAll);
  forward(kAll);
  forward(kAll);
  train(kAll);
  EXPECT_EQ(recorded(), kAll);
}

TEST_F(UnitPassesTest, OfAUnitThatBeginsTheStepAndIsUsedAgainAreAllRecorded) {
  const Units twice = {0, 1, 0, 1, 2, 3};
  for (int step = 0; step < 3; ++step) train(twice);
  EXPECT_EQ(recorded(), twice);
}

TEST_F(UnitPassesTest, OfABackwardPassThatBrokeOffAreNotRecorded) {
  train(kAll);
  forward(kAll);
  passes_.begin_backward(UnitId{3}).value();
  train(kAll);
  EXPECT_EQ(recorded(), kAll);
}

TEST_F(UnitPassesTest, OfEveryMicroBatchAreRecorded) {
  for (int step = 0; step < 3; ++step) {
    forward(kAll);
    backward(kAll);
    train(kAll);
  }
  EXPECT_EQ(recorded(), (Units{0, 1, 2, 3, 0, 1, 2, 3}));
}

}  // namespace
}  // namespace castor

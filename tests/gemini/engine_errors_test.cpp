// SPDX-License-Identifier: Apache-2.0
// The fields of errors say to a program what their sentences say: kind, option, tier, bytes needed and available. They
// are the same behind the C border.
#include <castor/engine/engine.h>

#include <gtest/gtest.h>

#include <functional>

#include "scratch_folder.h"
#include "small_training.h"
#include "through_border.h"

namespace castor {
namespace {

using test::SmallTraining;

struct Row {
  std::string what;
  std::function<void(EngineOptions&)> spoil;  ///< from options without limits
  ErrorKind kind;
  std::string option;
  std::optional<Shortage> shortage = {};
  /// Asked of a strategy that was made; null: making it fails.
  std::function<Result<void>(Strategy&)> ask = nullptr;
};

constexpr std::uint64_t kUnit = 8192;  ///< bytes of a unit's weights: SmallTraining().unit_bytes()

Result<void> acquire_all(Strategy& strategy) {
  static constexpr std::uint32_t kParams[] = {0, 1, 2, 3};
  return strategy.values().acquire({sizeof(castor_access), CASTOR_READ, 4, kParams});
}

Result<void> step_by_sgd(Strategy& strategy) {
  castor_step_args args = SmallTraining().step_args();
  args.optimizer = CASTOR_SGD;
  const auto stepped = strategy.begin_step(args);
  return stepped.ok() ? Result<void>() : stepped.error();
}

Result<void> commit(Strategy& strategy) {
  const auto done = strategy.commit(1, "");
  return done.ok() ? Result<void>() : done.error();
}

std::vector<Row> rows(const std::string& folder) {
  const auto cpu = [](EngineOptions& options) { options.placement_policy = PlacementPolicy::cpu; };
  return {
      {"the device holds no unit", [](EngineOptions& options) { options.device_budget_bytes = 1000; },
       ErrorKind::does_not_fit, "device_budget", Shortage{Tier::device, kUnit, 1000}},
      {"its part for chunks holds no unit",
       [](EngineOptions& options) {
         options.placement_policy = PlacementPolicy::constant, options.const_device_bytes = 1000;
       },
       ErrorKind::does_not_fit, "const_device_bytes", Shortage{Tier::device, kUnit, 1000}},
      // Of the largest chunk: 10 B of states, 2 B of the gradient and 2 B of the weight for each of 4096 elements.
      {"the host holds no update", [&cpu](EngineOptions& options) { cpu(options), options.host_budget_bytes = 1000; },
       ErrorKind::does_not_fit, "host_budget", Shortage{Tier::host, 4096 * 14, 1000}},
      {"a share for folders that are not there", [](EngineOptions& options) { options.nvme_offload_fraction = 0.5; },
       ErrorKind::usage, "nvme"},
      {"weights that do not fit at once",
       [](EngineOptions& options) {
         options.placement_policy = PlacementPolicy::cpu, options.device_budget_bytes = 2 * kUnit;
       },
       ErrorKind::does_not_fit, "device_budget", Shortage{Tier::device, 4 * kUnit, 2 * kUnit}, acquire_all},
      {"a step by another rule", [](EngineOptions&) {}, ErrorKind::usage, "optimizer", {}, step_by_sgd},
      {"a commit to scratch folders",
       [folder](EngineOptions& options) { options.nvme_folders = {folder}; },
       ErrorKind::usage,
       "durability",
       {},
       commit},
  };
}

Result<std::unique_ptr<Strategy>> attached(ModelHost& host, const EngineOptions& options, bool through_border) {
  const auto make = [&options](ModelHost& model) -> Result<std::unique_ptr<Strategy>> {
    CASTOR_ASSIGN(auto engine, Engine::make(model, options));
    return std::unique_ptr<Strategy>(std::move(engine));
  };
  if (through_border) return test::through_border(host, make);
  CASTOR_ASSIGN(auto strategy, make(host));
  CASTOR_TRY(strategy->attach());
  return strategy;
}

TEST(EngineErrors, CarryTheirFieldsAtTheSourceAndBehindTheBorder) {
  const test::ScratchFolder folder;
  const SmallTraining training;
  for (const Row& row : rows(folder.path()))
    for (const bool through_border : {false, true}) {
      EngineOptions options = training.options();
      row.spoil(options);
      const auto host = training.make_host();
      auto made = attached(*host, options, through_border);
      const auto outcome = !made.ok() ? Result<void>(made.error()) : row.ask ? row.ask(**made) : Result<void>();
      ASSERT_FALSE(outcome.ok()) << row.what;
      const Error& error = outcome.error();
      EXPECT_EQ(error.kind, row.kind) << row.what << ": " << error.message;
      EXPECT_EQ(error.option, row.option) << row.what << ": " << error.message;
      ASSERT_EQ(error.shortage.has_value(), row.shortage.has_value()) << row.what << ": " << error.message;
      if (!row.shortage) continue;
      EXPECT_EQ(error.shortage->tier, row.shortage->tier) << row.what;
      EXPECT_EQ(error.shortage->needed_bytes, row.shortage->needed_bytes) << row.what;
      EXPECT_EQ(error.shortage->available_bytes, row.shortage->available_bytes) << row.what;
      EXPECT_NE(error.message.find("`" + row.option + "`"), std::string::npos) << error.message;
    }
}

}  // namespace
}  // namespace castor

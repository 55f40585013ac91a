// SPDX-License-Identifier: Apache-2.0
// A training without a model: random parameters, units and gradients from a seed, driven through any plugin, so that
// two plugins (or one under two budgets) can be compared bit by bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <castor/plugins/booster.h>

#include "fake_model_host.h"

namespace castor::test {

/// The result of a run: everything that another run must repeat.
struct TrainingRecord {
  std::vector<std::vector<float>> weights_seen;  ///< by each use of each unit, and masters read within steps, in order
  std::vector<std::vector<float>> masters;       ///< by parameter, at the end
  std::vector<double> grad_norms;
  std::vector<bool> skipped;
  castor_stats stats{};
};

class ScriptedTraining {
 public:
  /// The actions of a training beside one forward and one backward pass in the order of the model's units.
  struct Habits {
    bool another_order = false;                 ///< of the units in every micro-batch
    bool evaluates = false;                     ///< up to two forward passes alone before each step
    bool announces = false;                     ///< each step; most steps want no norm, and all have the same gradients
    bool groups = false;                        ///< of parameters, other ones in every step
    bool clips_values = false;                  ///< in most steps, and never the norm
    bool reads = false;                         ///< some masters before each micro-batch
    castor_optimizer optimizer = CASTOR_ADAMW;  ///< of every step; CASTOR_ADAMW stands for both Adams, in turns
  };

  explicit ScriptedTraining(std::uint32_t seed) : ScriptedTraining(seed, Habits{}) {}
  ScriptedTraining(std::uint32_t seed, const Habits& habits);

  /// Part of a training: actions before and after it, and the steps in between, at most those of the training.
  struct Stretch {
    std::size_t first = 0, end = SIZE_MAX;
    std::function<Result<void>(Strategy&)> before = {}, after = {};  ///< null = nothing
    /// While the parameters of a unit are bound; null = nothing.
    std::function<void(std::uint32_t unit)> computes = {};
  };

  /// Trains with the plugin at `path`. Errors: those of the plugin.
  Result<TrainingRecord> run(const std::string& path, const PluginOptions& options) const {
    return run(path, options, Stretch());
  }
  Result<TrainingRecord> run(const std::string& path, const PluginOptions& options, const Stretch& stretch) const;
  /// Trains `model`, made by make_host, with `strategy`, to which it is attached.
  Result<TrainingRecord> run(Strategy& strategy, FakeModelHost& model, const Stretch& stretch) const;
  std::unique_ptr<FakeModelHost> make_host(DLDevice device) const;

  std::uint64_t largest_unit_bytes() const;  ///< weights, each tensor padded to 512 B
  std::uint64_t payload_bytes() const;

 private:
  struct GradientEvent {
    std::uint32_t param;
    std::vector<float> values;
  };
  struct MicroBatch {
    std::vector<std::vector<GradientEvent>> by_unit;
    std::vector<std::uint32_t> order;  ///< of the units in forward; backward runs in reverse
    std::vector<std::uint32_t> read;   ///< parameters whose masters are read before it
  };
  struct Step {
    std::vector<MicroBatch> micro_batches;
    castor_step_args args;
    std::uint32_t n_evaluations = 0;
    std::vector<castor_param_group> groups = {};
    std::vector<std::uint32_t> group_of = {};
  };

  /// The parts of a run. All borrowed.
  struct Run {
    Strategy& strategy;
    FakeModelHost& model;
    const Stretch& stretch;
    TrainingRecord& record;
  };

  Result<void> forward(const Run& run, const MicroBatch& micro_batch) const;
  void choose_groups(Step& step, std::mt19937& random) const;
  Result<void> train(const Run& run, const Step& step) const;
  static castor_step_args args_of(const Step& step, std::vector<const castor_param_group*>& groups);
  Result<void> backward(const Run& run, const MicroBatch& micro_batch) const;

  std::vector<FakeParam> params_;
  std::vector<FakeUnit> units_;
  bool announces_ = false;
  std::vector<Step> steps_;
};

}  // namespace castor::test

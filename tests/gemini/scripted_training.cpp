// SPDX-License-Identifier: Apache-2.0
#include "scripted_training.h"

#include <castor/memory/bytes.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <random>

namespace castor::test {
namespace {

/// A value that bf16 holds exactly.
float exact_in_bf16(std::mt19937& random) {
  const float value = std::normal_distribution<float>(0, 0.5f)(random);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000u);
}

std::vector<float> values(std::mt19937& random, std::size_t n) {
  std::vector<float> made(n);
  for (float& value : made) value = exact_in_bf16(random);
  return made;
}

castor_step_args random_args(std::mt19937& random) {
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.optimizer = random() % 2 ? CASTOR_ADAMW : CASTOR_ADAM;
  args.lr = 1e-3 * (1 + random() % 10);
  args.beta1 = 0.9;
  args.beta2 = 0.99;
  args.eps = 1e-8;
  args.weight_decay = 0.01 * (random() % 3);
  args.max_norm = random() % 3 == 0 ? 0 : 0.1 * (1 + random() % 100);
  args.loss_scale = random() % 2 ? 1 : 1024;
  return args;
}

void choose_optimizer(castor_step_args& args, castor_optimizer optimizer, std::mt19937& random) {
  args.optimizer = optimizer;
  args.momentum = 0.1 * (random() % 10);
  args.nesterov = random() % 2;
  args.trust_coefficient = 0.001 * (random() % 100);
}

std::uint64_t padded_bytes(const FakeParam& param) { return align_up(numel(param.shape), 256) * param.dtype.bits / 8; }

}  // namespace

ScriptedTraining::ScriptedTraining(std::uint32_t seed, const Habits& habits) {
  std::mt19937 random(seed), random_habits(seed + 77);
  const std::uint32_t n_params = 2 + random() % 9;
  for (std::uint32_t p = 0; p < n_params; ++p) {
    const std::int64_t rows = 1 + random() % 40, columns = 1 + random() % 60;
    params_.push_back(
        {"p" + std::to_string(p), {rows, columns}, random() % 4 ? kBf16 : kFp32, values(random, rows * columns)});
    if (p == 0 || random() % 2) units_.push_back({"unit" + std::to_string(units_.size()), {}});
    units_.back().params.push_back(p);
  }
  std::shuffle(units_.begin(), units_.end(), random);  // first use in another order than registration
  units_.push_back({"tied", {0}});
  announces_ = habits.announces;

  for (int s = 0; s < 6; ++s) {
    Step step{{}, random_args(random)};
    if (habits.announces && random_habits() % 4 != 0) step.args.max_norm = 0, step.args.loss_scale = 1;
    if (habits.optimizer != CASTOR_ADAMW) choose_optimizer(step.args, habits.optimizer, random_habits);
    if (habits.groups) choose_groups(step, random_habits);
    if (habits.clips_values) step.args.max_norm = 0, step.args.max_value = 0.125 * (random_habits() % 4);
    for (std::uint32_t m = 0; m < 1 + random() % 3; ++m) {
      MicroBatch micro_batch;
      for (const FakeUnit& unit : units_) {
        auto& events = micro_batch.by_unit.emplace_back();
        for (const std::uint32_t p : unit.params)
          if (habits.announces ? p % 8 != 5 : random() % 8 != 0)
            events.push_back({p, values(random, numel(params_[p].shape))});
      }
      micro_batch.order.resize(units_.size());
      std::iota(micro_batch.order.begin(), micro_batch.order.end(), 0u);
      if (habits.another_order) std::shuffle(micro_batch.order.begin(), micro_batch.order.end(), random_habits);
      for (std::uint32_t p = 0; habits.reads && p < n_params; ++p)
        if (random_habits() % 3 == 0) micro_batch.read.push_back(p);
      step.micro_batches.push_back(std::move(micro_batch));
    }
    if (habits.evaluates) step.n_evaluations = random_habits() % 3;
    auto& first = step.micro_batches[0].by_unit[0];
    const bool overflow = s == 3 && step.args.loss_scale != 1 && !first.empty();
    if (overflow) first[0].values[0] = std::numeric_limits<float>::infinity();
    steps_.push_back(std::move(step));
  }
}

/// One to four, of which some may have no parameter; now and then none at all.
void ScriptedTraining::choose_groups(Step& step, std::mt19937& random) const {
  step.groups.resize(random() % 5);
  for (castor_param_group& group : step.groups)
    group = {sizeof group,
             1e-3 * (random() % 10),
             0.1 * (random() % 10),
             0.9 + 0.01 * (random() % 10),
             random() % 2 ? 1e-8 : 1e-4,
             0.1 * (random() % 3),
             0.1 * (random() % 10),
             0.001 * (random() % 100)};
  for (std::size_t p = 0; p < params_.size() && !step.groups.empty(); ++p)
    step.group_of.push_back(random() % step.groups.size());
}

castor_step_args ScriptedTraining::args_of(const Step& step, std::vector<const castor_param_group*>& groups) {
  groups.clear();
  for (const castor_param_group& group : step.groups) groups.push_back(&group);
  castor_step_args args = step.args;
  args.n_groups = static_cast<std::uint32_t>(groups.size());
  args.groups = groups.data();
  args.group_of = step.group_of.data();
  return args;
}

std::uint64_t ScriptedTraining::payload_bytes() const {
  std::uint64_t n_bytes = 0;
  for (const FakeParam& param : params_) n_bytes += padded_bytes(param);
  return n_bytes;
}

std::uint64_t ScriptedTraining::largest_unit_bytes() const {
  std::uint64_t largest = 0;
  for (const FakeUnit& unit : units_) {
    std::uint64_t n_bytes = 0;
    for (const std::uint32_t p : unit.params) n_bytes += padded_bytes(params_[p]);
    largest = std::max(largest, n_bytes);
  }
  return largest;
}

Result<void> ScriptedTraining::forward(const Run& run, const MicroBatch& micro_batch) const {
  for (const std::uint32_t unit : micro_batch.order) {
    CASTOR_TRY(run.strategy.before_forward(unit));
    for (const std::uint32_t p : units_[unit].params) run.record.weights_seen.push_back(run.model.weights(p));
    if (run.stretch.computes) run.stretch.computes(unit);
    CASTOR_TRY(run.strategy.after_forward(unit));
  }
  return {};
}

/// The first unit's input needs no gradient, so it has no after_backward; gradients of the others come before or after
/// it.
Result<void> ScriptedTraining::backward(const Run& run, const MicroBatch& micro_batch) const {
  const std::uint32_t first = micro_batch.order.front();
  for (std::size_t i = units_.size(); i-- > 0;) {
    const std::uint32_t unit = micro_batch.order[i];
    CASTOR_TRY(run.strategy.before_backward(unit));
    if (run.stretch.computes) run.stretch.computes(unit);
    const bool late = unit % 3 == 1;
    if (late) CASTOR_TRY(run.strategy.after_backward(unit));
    for (const GradientEvent& event : micro_batch.by_unit[unit])
      CASTOR_TRY(run.strategy.gradient(event.param, run.model.make_gradient(event.param, event.values)));
    if (!late && unit != first) CASTOR_TRY(run.strategy.after_backward(unit));
  }
  return run.strategy.end_of_backward();
}

Result<void> ScriptedTraining::train(const Run& run, const Step& step) const {
  std::vector<const castor_param_group*> groups;
  const castor_step_args args = args_of(step, groups);
  for (std::uint32_t i = 0; i < step.n_evaluations; ++i) CASTOR_TRY(forward(run, step.micro_batches[0]));
  for (const MicroBatch& micro_batch : step.micro_batches) {
    for (const std::uint32_t p : micro_batch.read) {
      std::vector<float>& seen = run.record.weights_seen.emplace_back(numel(params_[p].shape));
      CASTOR_TRY(run.strategy.read_master(p, seen.data()));
    }
    CASTOR_TRY(forward(run, micro_batch));
    if (announces_ && &micro_batch == &step.micro_batches.back()) CASTOR_TRY(run.strategy.announce_step(args));
    CASTOR_TRY(backward(run, micro_batch));
  }
  CASTOR_ASSIGN(const castor_step_result result, run.strategy.step(args));
  run.record.grad_norms.push_back(result.grad_norm);
  run.record.skipped.push_back(result.skipped != 0);
  return {};
}

std::unique_ptr<FakeModelHost> ScriptedTraining::make_host(DLDevice device) const {
  return std::make_unique<FakeModelHost>(params_, units_, device);
}

Result<TrainingRecord> ScriptedTraining::run(Strategy& strategy, FakeModelHost& model, const Stretch& stretch) const {
  TrainingRecord record;
  if (stretch.before) CASTOR_TRY(stretch.before(strategy));
  for (std::size_t s = stretch.first; s < std::min(stretch.end, steps_.size()); ++s)
    CASTOR_TRY(train({strategy, model, stretch, record}, steps_[s]));
  if (stretch.after) CASTOR_TRY(stretch.after(strategy));
  for (std::uint32_t p = 0; p < params_.size(); ++p) {
    record.masters.emplace_back(numel(params_[p].shape));
    CASTOR_TRY(strategy.read_master(p, record.masters.back().data()));
  }
  CASTOR_ASSIGN(record.stats, strategy.stats());
  return record;
}

Result<TrainingRecord> ScriptedTraining::run(const std::string& path, const PluginOptions& options,
                                             const Stretch& stretch) const {
  FakeModelHost model(params_, units_);
  CASTOR_ASSIGN(const Plugin plugin, PluginLoader("", {}).load(path));
  CASTOR_ASSIGN(const Booster booster, Booster::make(plugin, options));
  CASTOR_ASSIGN(auto strategy, booster.boost(model));
  CASTOR_ASSIGN(TrainingRecord record, run(*strategy, model, stretch));
  strategy.reset();  // the last ones may be read until then
  if (model.n_live_gradients() != 0) return Error{ErrorKind::failed, "gradients were not given back"};
  return record;
}

}  // namespace castor::test

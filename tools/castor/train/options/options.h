// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <castor/memory/device.h>
#include <castor/memory/dtype.h>
#include <castor/plugins/grad_scaler.h>
#include <castor/plugins/lr_schedule.h>
#include <castor/rules/state_format.h>
#include <castor/training/run_folders.h>

#include "cli/cli.h"
#include "train/options/group_option.h"
#include "train/options/step_options.h"

namespace castor::train {

/// The options of `castor train`. The defaults are those that `--help` prints.
struct TrainOptions {
  std::string model;
  std::filesystem::path data;  ///< empty = random input
  std::string plugin = "gemini";
  DeviceKind device = DeviceKind::cpu;
  std::optional<std::uint64_t> device_budget, host_budget;
  std::vector<std::filesystem::path> nvme;
  std::map<std::string, std::string> set;  ///< --set name=value, as given
  std::int64_t steps = 100;
  std::int64_t batch = 8;  ///< samples per micro-batch
  std::int64_t seq = 128;
  std::uint64_t seed = 0;
  double clip = 0;        ///< 0 = none
  double clip_value = 0;  ///< 0 = none
  DType precision = DType::bf16;
  castor_optimizer optimizer = CASTOR_ADAMW;
  MomentumOptions momentum;                   ///< of sgd and lars
  LrScheduleOptions lr_schedule{.lr = 6e-4};  ///< valid, with the default of --decay-steps filled in
  GradScalerOptions scaler;                   ///< fp16's loss scale; valid
  MomentFormat moments = MomentFormat::f32;
  double weight_decay = 0.01;
  std::vector<ParamGroup> groups;  ///< --group, in the order given
  std::int64_t accumulate = 1;     ///< micro-batches per step
  int threads = 0;                 ///< 0 = torch's own choice, at most the CPU quota
  bool recompute = false;
  bool deterministic = false;
  std::filesystem::path trace;                            ///< empty = none
  std::vector<std::filesystem::path> checkpoint, resume;  ///< folders of one checkpoint each; empty = none
  bool stops_on_nan = true;                               ///< --on-nan
  std::int64_t checkpoint_every = 0;                      ///< steps; 0 = at the end alone
  bool commit_nvme = false;  ///< the folders of --nvme are the checkpoint; `checkpoint` is empty then

  /// The folders that the run is saved in; none if it is not saved.
  std::vector<std::filesystem::path> saved_in() const;

  /// Samples that one step reads.
  std::int64_t samples_per_step() const { return batch * accumulate; }
};

cli::CommandSyntax train_syntax();

/// Checks the values of the options. Errors: usage, naming the option and the values it accepts.
Result<TrainOptions> read_options(const cli::Values& values);

/// The options of plugin `plugin` that follow from --device-budget, --host-budget, --nvme, --durability, --moments and
/// --set. `known` are the names in its schema.
/// Errors: usage if the plugin has no option for one of the first five, or if one is given twice. Names from --set are
/// not checked here: the Booster does that.
Result<std::map<std::string, std::string>> plugin_options(const TrainOptions& options, const std::string& plugin,
                                                          const std::vector<std::string>& known);

}  // namespace castor::train

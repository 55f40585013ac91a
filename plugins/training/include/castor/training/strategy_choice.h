// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <castor/io/durability.h>
#include <castor/plugins/option_schema.h>
#include <castor/plugins/plugin_loader.h>
#include <castor/rules/moment_format.h>

namespace castor {

/// The plugin gemini. The fields have the names of its options, which `castor plugins list -v` explains; a field that
/// is left as it is leaves the option at its default.
struct Gemini {
  std::optional<std::uint64_t> device_budget, host_budget, nvme_budget;  ///< bytes
  std::vector<std::filesystem::path> nvme;                               ///< folders of the NVMe tier; none = no tier
  /// commit: these folders are the checkpoint.
  Durability durability = Durability::scratch;
  std::optional<double> nvme_offload_fraction;  ///< 0 to 1
  std::string placement_policy;                 ///< auto, static, cuda, cpu or const; empty = auto
  MomentFormat moments = MomentFormat::f32;
  bool offload_activations = false;
  std::uint32_t update_threads = 0;  ///< 0 = as many as the process has CPUs, or its CPU quota allows
  PluginOptions set = {};            ///< further options
};

/// The run that every placement is compared with: everything stays on the model's device.
struct Resident {
  MomentFormat moments = MomentFormat::f32;
};

/// Any plugin.
struct PluginByName {
  std::string name;  ///< or the path of its file, which has a slash
  PluginOptions options = {};
  std::optional<Plugin> loaded = {};  ///< the plugin itself, where the caller has loaded it
};

/// The placement of a training's memory.
using StrategyChoice = std::variant<Gemini, Resident, PluginByName>;

/// `gemini` by its name. Errors: usage if an option of `set` has a field of its own that is given too.
Result<PluginByName> by_name(const Gemini& gemini);

/// The facts of a training that plugins have options for.
struct TrainingFacts {
  castor_optimizer optimizer = CASTOR_ADAMW;
  bool accumulates = false;  ///< several micro-batches per step
  std::uint64_t seed = 0;    ///< of rounding at random
};

/// The seed of rounding at random that a plugin option can hold.
constexpr std::uint64_t rounding_seed(std::uint64_t seed) { return seed % (std::uint64_t{1} << 53); }

/// `options` with those that follow from the training, as far as `plugin` has them and they are not given: optimizer,
/// accumulate_gradients, rounding_seed. Errors: usage if `optimizer` is given, and not the one of the training.
Result<PluginOptions> with_facts(PluginOptions options, const castor_plugin_info& plugin, const TrainingFacts& facts);

/// The folders in which a plugin with `options` commits a run; none where it does not.
std::vector<std::filesystem::path> committed_folders(const PluginOptions& options);

}  // namespace castor

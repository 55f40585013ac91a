// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/booster.h>

#include "sdk/abi_strategy.h"

#include <string>
#include <utility>

namespace castor {
namespace {

/// The capability that training on `device` needs; 0 for a kind of device that no plugin can have.
std::uint64_t capability_of(const DLDevice& device) {
  if (device.device_type == kDLCPU) return CASTOR_CAP_CPU;
  return device.device_type == kDLCUDA ? CASTOR_CAP_CUDA : 0;
}

std::string describe_devices(std::uint64_t capabilities) {
  const bool cpu = capabilities & CASTOR_CAP_CPU;
  const bool cuda = capabilities & CASTOR_CAP_CUDA;
  return cpu && cuda ? "cpu and cuda" : cpu ? "cpu" : cuda ? "cuda" : "no device";
}

std::string describe_device(const DLDevice& device) {
  if (device.device_type == kDLCPU) return "cpu";
  if (device.device_type == kDLCUDA) return "cuda:" + std::to_string(device.device_id);
  return "DLPack device type " + std::to_string(device.device_type);
}

Result<void> check_device(const castor_plugin_info& info, ModelHost& model) {
  const DLDevice device = model.device();
  if (info.capabilities & capability_of(device)) return {};
  return Error{ErrorKind::usage,
               std::string("plugin ") + info.name + " trains on " + describe_devices(info.capabilities) +
                   ", the model is on " + describe_device(device) + "; choose another `device` or another plugin",
               "device"};
}

/// Refuses to train over ranks, or stages, with a plugin that knows one rank alone: its results would be those of one.
Result<void> check_ranks(const castor_plugin_info& info, ModelHost& model) {
  const bool lacks_ranks = model.groups() != nullptr && !(info.capabilities & CASTOR_CAP_RANKS);
  const bool lacks_stages = model.stages() != nullptr && !(info.capabilities & CASTOR_CAP_STAGES);
  if (!lacks_ranks && !lacks_stages) return {};
  return Error{ErrorKind::usage,
               std::string("plugin ") + info.name + " trains " +
                   (lacks_ranks ? "on one rank alone; start one process" : "no pipeline; leave its stages out") +
                   ", or choose another plugin"};
}

}  // namespace

Result<Booster> Booster::make(Plugin plugin, const PluginOptions& options) {
  CASTOR_ASSIGN(auto complete, complete_options(plugin.info->name, option_schema(*plugin.info), options));
  return Booster(std::move(plugin), std::move(complete));
}

Result<std::unique_ptr<Strategy>> Booster::boost(ModelHost& model) const {
  CASTOR_TRY(check_device(*plugin_.info, model));
  CASTOR_TRY(check_ranks(*plugin_.info, model));
  CASTOR_ASSIGN(auto strategy, sdk::AbiStrategy::make(plugin_, model, options_));
  CASTOR_TRY(strategy->attach());
  return std::unique_ptr<Strategy>(std::move(strategy));
}

}  // namespace castor

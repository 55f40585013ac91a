// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/booster.h>

#include <castor/plugins/step_args.h>

#include "abi_strategy.h"

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

Result<void> check_device(const castor_plugin_info& info, const castor_host_v1& host) {
  const DLDevice device = host.device(host.self);
  if (info.capabilities & capability_of(device)) return {};
  return Error{ErrorKind::usage, std::string("plugin ") + info.name + " trains on " +
                                     describe_devices(info.capabilities) + ", the model is on " +
                                     describe_device(device) + "; choose another --device or another plugin"};
}

}  // namespace

Result<Booster> Booster::make(Plugin plugin, const PluginOptions& options) {
  CASTOR_ASSIGN(auto complete, complete_options(plugin.info->name, option_schema(*plugin.info), options));
  return Booster(std::move(plugin), std::move(complete));
}

Result<void> Booster::supports(const castor_step_args& args) const { return check_support(*plugin_.info, args); }

Result<std::unique_ptr<Strategy>> Booster::boost(ModelHost& model) const {
  CASTOR_TRY(check_device(*plugin_.info, model.table()));
  CASTOR_ASSIGN(auto strategy, AbiStrategy::make(plugin_, model, options_));
  CASTOR_TRY(strategy->attach());
  return std::unique_ptr<Strategy>(std::move(strategy));
}

}  // namespace castor

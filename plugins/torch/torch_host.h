// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device_memory.h"
#include "model_map.h"

#include <castor/plugins/model_host.h>

#include <cstdint>

namespace castor {

/// A mapped model as a ModelHost.
class TorchHost final : public ModelHost {
 public:
  TorchHost(ModelMap map, c10::Device device, AdapterOptions options);
  TorchHost(const TorchHost&) = delete;
  TorchHost& operator=(const TorchHost&) = delete;

  const ModelMap& map() const { return map_; }
  c10::Device torch_device() const { return device_; }
  bool stopped() const;
  /// The memory that parameters have now is that of bind and unbind from now on (ParamEntry::own).
  void keep_memory();
  /// AdapterOptions::passes.
  PassRules* passes() const { return options_.passes; }
  const std::string& grad_message() const { return options_.grad_message; }
  /// AdapterOptions::rethrow.
  const std::function<void(const ErrorException&)>& rethrow() const { return options_.rethrow; }

  void log(castor_log_level level, const char* message) override;
  std::uint32_t n_units() override { return static_cast<std::uint32_t>(map_.units.size()); }
  std::uint32_t n_params() override { return static_cast<std::uint32_t>(map_.params.size()); }
  Result<castor_unit_info> unit_info(std::uint32_t unit) override;
  Result<castor_param_info> param_info(std::uint32_t param) override;
  Result<void> first_values(const castor_values& values) override;
  Result<void> bind(std::uint32_t param, void* data) override;
  Result<void> unbind(std::uint32_t param, const char* why) override;
  DLDevice device() override;
  void* compute_stream() override;
  std::int32_t interrupted() override { return stopped() ? 1 : 0; }
  DeviceCalls* device_memory() override { return device_.is_cpu() ? nullptr : &memory_; }

 private:
  Result<void> check_param(std::uint32_t param) const;

  ModelMap map_;
  const c10::Device device_;
  ChunkMemory memory_;
  const AdapterOptions options_;
};

}  // namespace castor

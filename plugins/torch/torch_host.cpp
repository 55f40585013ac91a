// SPDX-License-Identifier: Apache-2.0
#include "torch_host.h"

#include <castor/plugins/torch/errors.h>
#include "adopted_values.h"
#include "parameter_checks.h"
#include "parameter_storage.h"

#include <ATen/Parallel.h>

#include <span>
#include <string>

namespace castor {
namespace {

Result<void> check(const char* what, std::uint32_t id, std::size_t n) {
  if (id < n) return {};
  return Error{ErrorKind::plugin,
               std::string("there is no ") + what + ' ' + std::to_string(id) + "; the model has " + std::to_string(n)};
}

}  // namespace

TorchHost::TorchHost(ModelMap map, c10::Device device, AdapterOptions options)
    : map_(std::move(map)), device_(device), memory_(device), options_(std::move(options)) {}

Result<void> TorchHost::check_param(std::uint32_t param) const { return check("parameter", param, map_.params.size()); }

/// Callbacks are called through the strategy's C border, which no exception may cross.
bool TorchHost::stopped() const {
  try {
    return options_.interrupted && options_.interrupted();
  } catch (...) {
    return true;
  }
}

void TorchHost::log(castor_log_level level, const char* message) {
  try {
    if (options_.log) options_.log(level, message);
  } catch (...) {
  }
}

Result<castor_unit_info> TorchHost::unit_info(std::uint32_t unit) {
  CASTOR_TRY(check("unit", unit, map_.units.size()));
  const UnitEntry& entry = map_.units[unit];
  return castor_unit_info{sizeof(castor_unit_info), static_cast<std::uint32_t>(entry.params.size()), entry.name.c_str(),
                          entry.params.data()};
}

Result<castor_param_info> TorchHost::param_info(std::uint32_t param) {
  CASTOR_TRY(check_param(param));
  const ParamEntry& entry = map_.params[param];
  const at::Tensor& tensor = entry.tensor;
  auto info = blank<castor_param_info>();
  info.flags = tensor.requires_grad() ? CASTOR_PARAM_TRAINABLE : computes(tensor) ? 0 : CASTOR_PARAM_OPAQUE;
  info.name = entry.name.c_str();
  info.shape = entry.sizes.data(), info.strides = entry.strides.data();
  info.ndim = static_cast<std::int32_t>(entry.sizes.size());
  info.dtype = entry.dtype, info.numel = static_cast<std::uint64_t>(c10::multiply_integers(entry.sizes));
  info.storage = param;
  return info;
}

Result<void> TorchHost::first_values(const castor_values& values) {
  CASTOR_TRY(check_param(values.param));
  const ParamEntry& entry = map_.params[values.param];
  const auto numel = static_cast<std::uint64_t>(entry.tensor.numel());
  const bool opaque = !computes(entry.tensor);
  if (values.form != (opaque ? CASTOR_OWN : CASTOR_FP32))
    return Error{ErrorKind::plugin, "the first values of parameter " + entry.name +
                                        (opaque ? ", which is opaque, are its own" : " are given in fp32")};
  const std::uint64_t n = values.n == CASTOR_ALL ? numel - std::min(numel, values.first) : values.n;
  if (values.first > numel || n > numel - values.first)
    return Error{ErrorKind::plugin, "first values " + std::to_string(values.first) + " to " +
                                        std::to_string(values.first + n) + " of a parameter that has " +
                                        std::to_string(numel)};
  if (opaque) return read_own_values(entry, values.data, values.first, n);
  const std::span<float> out(static_cast<float*>(values.data), n);
  if (!entry.init) return read_values(entry, out, values.first);
  return guard([&] { fill(out, *entry.init, {options_.seed, values.param}, at::get_num_threads(), values.first); });
}

void TorchHost::keep_memory() {
  for (ParamEntry& param : map_.params) param.own = param.tensor.variable_data();
}

Result<void> TorchHost::bind(std::uint32_t param, void* data) {
  CASTOR_TRY(check_param(param));
  ParamEntry& entry = map_.params[param];
  entry.was_bound = true;
  entry.first_values.reset();
  return guard([&] { bind_storage(storage_of(entry.memory()), data, this); });
}

Result<void> TorchHost::unbind(std::uint32_t param, const char* why) {
  CASTOR_TRY(check_param(param));
  ParamEntry& entry = map_.params[param];
  entry.was_bound = true;
  entry.first_values.reset();
  return guard([&] {
    release_storage(storage_of(entry.memory()), "parameter " + entry.name + ": " + (why == nullptr ? "released" : why));
  });
}

DLDevice TorchHost::device() { return device_.is_cpu() ? DLDevice{kDLCPU, 0} : DLDevice{kDLCUDA, device_.index()}; }

void* TorchHost::compute_stream() { return castor::compute_stream(device_); }

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "gemini_strategy.h"

namespace castor {
namespace {

Result<DType> dtype_of(const castor_param_info& info) {
  if (info.dtype.code == kDLFloat && info.dtype.bits == 32) return DType::f32;
  if (info.dtype.code == kDLFloat && info.dtype.bits == 16) return DType::f16;
  if (info.dtype.code == kDLBfloat && info.dtype.bits == 16) return DType::bf16;
  return Error{ErrorKind::usage, std::string("parameter ") + info.name +
                                     " is neither fp32, bf16 nor fp16; the gemini plugin keeps no other dtype"};
}

Result<void> read_params(const castor_host_v1& host, ModelShape& model) {
  for (std::uint32_t param = 0; param < host.n_params(host.self); ++param) {
    castor_param_info info{};
    if (host.param_info(host.self, param, &info) != CASTOR_OK)
      return Error{ErrorKind::plugin, "the host does not describe parameter " + std::to_string(param)};
    CASTOR_ASSIGN(const DType dtype, dtype_of(info));
    model.tensors.push_back({info.numel, dtype, (info.flags & CASTOR_PARAM_TRAINABLE) != 0});
  }
  return {};
}

Result<void> read_units(const castor_host_v1& host, ModelShape& model) {
  std::vector<bool> seen(model.tensors.size(), false);
  for (std::uint32_t unit = 0; unit < host.n_units(host.self); ++unit) {
    castor_unit_info info{};
    if (host.unit_info(host.self, unit, &info) != CASTOR_OK)
      return Error{ErrorKind::plugin, "the host does not describe unit " + std::to_string(unit)};
    model.unit_names.emplace_back(info.name);
    model.units.emplace_back(info.params, info.params + info.n_params);
    for (const std::uint32_t param : model.units.back()) {
      if (!seen.at(param)) model.order.push_back(param), model.tensors[param].unit = unit;
      seen[param] = true;
    }
  }
  for (std::uint32_t param = 0; param < seen.size(); ++param)
    if (!seen[param])
      return Error{ErrorKind::usage,
                   "parameter " + std::to_string(param) + " belongs to no unit, so nobody would fetch it"};
  return {};
}

}  // namespace

Result<ModelShape> ModelShape::read(const castor_host_v1& host) {
  ModelShape model;
  CASTOR_TRY(read_params(host, model));
  CASTOR_TRY(read_units(host, model));
  return model;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "model_shape.h"

#include <utility>

#include <castor/plugins/dl_dtype.h>

namespace castor {
namespace {

Result<void> read_params(ModelHost& host, ModelShape& model) {
  for (std::uint32_t param = 0; param < host.n_params(); ++param) {
    CASTOR_ASSIGN(const castor_param_info info, host.param_info(param));
    CASTOR_ASSIGN(const DType dtype, kept_dtype(info));
    ParamShape shape;
    shape.name = info.name;
    if (dtype == DType::u8) shape.elements_a_value = value_bytes(info.dtype);
    shape.spec = {info.numel * shape.elements_a_value, dtype, is_trainable(info)};
    model.params.push_back(std::move(shape));
  }
  return {};
}

Result<void> read_units(ModelHost& host, ModelShape& model) {
  IndexedVector<ParamId, bool> seen(model.params.size(), false);
  for (const UnitId unit : ids<UnitId>(host.n_units())) {
    CASTOR_ASSIGN(const castor_unit_info info, host.unit_info(number(unit)));
    model.unit_names.push_back(info.name);
    model.units.push_back({});
    for (std::size_t i = 0; i < info.n_params; ++i) model.units[unit].push_back(ParamId{info.params[i]});
    for (const ParamId param : model.units[unit]) {
      if (seen.at(param)) continue;
      seen[param] = true;
      model.params[param].spec.unit = unit;
      if (!model.params[param].empty()) model.order.push_back(param);
    }
  }
  for (const ParamId param : seen.ids())
    if (!seen[param])
      return Error{ErrorKind::usage,
                   "parameter " + std::to_string(number(param)) +
                       " belongs to no unit, so it would never be fetched; make it a parameter of a unit"};
  return {};
}

}  // namespace

Result<ModelShape> ModelShape::read(ModelHost& host) {
  ModelShape model;
  CASTOR_TRY(read_params(host, model));
  CASTOR_TRY(read_units(host, model));
  return model;
}

}  // namespace castor

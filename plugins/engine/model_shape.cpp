// SPDX-License-Identifier: Apache-2.0
#include "model_shape.h"

#include <algorithm>
#include <utility>

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
    ParamShape shape;
    shape.name = info.name;
    shape.spec = {info.numel, dtype, (info.flags & CASTOR_PARAM_TRAINABLE) != 0};
    shape.dtype = info.dtype;
    shape.extents.assign(info.shape, info.shape + info.ndim);
    model.params.push_back(std::move(shape));
  }
  return {};
}

Result<void> read_units(const castor_host_v1& host, ModelShape& model) {
  IndexedVector<ParamId, bool> seen(model.params.size(), false);
  for (const UnitId unit : ids<UnitId>(host.n_units(host.self))) {
    castor_unit_info info{};
    if (host.unit_info(host.self, number(unit), &info) != CASTOR_OK)
      return Error{ErrorKind::plugin, "the host does not describe unit " + std::to_string(number(unit))};
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

std::string text_of(DLDataType dtype) {
  const char* const code = dtype.code == kDLBfloat ? "bf" : dtype.code == kDLFloat ? "fp" : "type ";
  return code + std::to_string(dtype.bits);
}

std::string text_of(const std::int64_t* extents, std::size_t n) {
  std::string text = "[";
  for (std::size_t i = 0; i < n; ++i) text += (i == 0 ? "" : ", ") + std::to_string(extents[i]);
  return text + "]";
}

bool is_contiguous(const DLTensor& tensor) {
  std::int64_t expected = 1;
  for (int i = tensor.ndim - 1; tensor.strides != nullptr && i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

/// The first defect of `grad`, or nothing.
std::string defect(const ParamShape& param, DLDevice device, const DLTensor& grad) {
  const auto& extents = param.extents;
  const auto ndim = static_cast<std::size_t>(grad.ndim);
  if (!param.spec.trainable) return "the parameter is frozen and takes none";
  if (grad.dtype.code != param.dtype.code || grad.dtype.bits != param.dtype.bits || grad.dtype.lanes != 1)
    return "it is " + text_of(grad.dtype) + ", the parameter " + text_of(param.dtype);
  if (!std::equal(extents.begin(), extents.end(), grad.shape, grad.shape + ndim))
    return "its shape is " + text_of(grad.shape, ndim) + ", the parameter's " + text_of(extents.data(), extents.size());
  if (!is_contiguous(grad)) return "it is not contiguous";
  if (grad.device.device_type != device.device_type || grad.device.device_id != device.device_id)
    return "it is on device " + std::to_string(grad.device.device_type) + ":" + std::to_string(grad.device.device_id) +
           ", the model on " + std::to_string(device.device_type) + ":" + std::to_string(device.device_id);
  if (grad.data == nullptr && !param.empty()) return "it has no data";
  return {};
}

}  // namespace

Result<ModelShape> ModelShape::read(const castor_host_v1& host) {
  ModelShape model;
  model.device = host.device(host.self);
  CASTOR_TRY(read_params(host, model));
  CASTOR_TRY(read_units(host, model));
  return model;
}

Result<void> check_gradient(const ModelShape& model, ParamId param, const DLTensor& grad) {
  if (!model.params.contains(param))
    return Error{ErrorKind::plugin, "gemini: a gradient arrived for parameter " + std::to_string(number(param)) +
                                        ", the model has " + std::to_string(model.params.size())};
  const ParamShape& shape = model.params[param];
  const std::string wrong = defect(shape, model.device, grad);
  if (wrong.empty()) return {};
  return Error{ErrorKind::plugin, "gemini: the gradient of " + shape.name + " is refused: " + wrong};
}

}  // namespace castor

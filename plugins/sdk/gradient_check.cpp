// SPDX-License-Identifier: Apache-2.0
#include "gradient_check.h"

#include <algorithm>
#include <span>

namespace castor::sdk {
namespace {

using Extents = std::vector<std::int64_t>;

/// Row-major strides of `shape`.
Extents contiguous(const Extents& shape) {
  Extents strides(shape.size());
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0; expected *= shape[i]) strides[i] = expected;
  return strides;
}

std::string text_of(DLDataType dtype) {
  const std::string bits = std::to_string(dtype.bits), code = std::to_string(dtype.code);
  const std::string type = dtype.code == kDLBfloat  ? "bf" + bits
                           : dtype.code == kDLFloat ? "fp" + bits
                                                    : "DLPack type " + code + " of " + bits + " bits";
  return dtype.lanes == 1 ? type : type + " in vectors of " + std::to_string(dtype.lanes);
}

std::string text_of(std::span<const std::int64_t> extents) {
  std::string text = "[";
  for (std::size_t i = 0; i < extents.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(extents[i]);
  return text + "]";
}

/// Strides count only where a dimension has several elements.
bool same_order(const Extents& shape, const Extents& wanted, std::span<const std::int64_t> found) {
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > 1 && wanted[i] != found[i]) return false;
  return true;
}

std::string text_of(DLDevice device) {
  return std::to_string(device.device_type) + ":" + std::to_string(device.device_id);
}

}  // namespace

Result<GradientCheck> GradientCheck::make(ModelHost& host) {
  GradientCheck check;
  check.device_ = host.device();
  for (std::uint32_t id = 0; id < host.n_params(); ++id) {
    CASTOR_ASSIGN(const castor_param_info info, host.param_info(id));
    Param param{.name = info.name, .trainable = is_trainable(info), .dtype = info.dtype, .numel = info.numel};
    param.shape.assign(info.shape, info.shape + info.ndim);
    param.row_major = contiguous(param.shape);
    param.strides = info.strides != nullptr ? Extents(info.strides, info.strides + info.ndim) : param.row_major;
    check.params_.push_back(std::move(param));
  }
  return check;
}

/// The first defect of `grad`, or nothing.
std::string GradientCheck::defect(const Param& param, const DLTensor& grad) const {
  const auto ndim = static_cast<std::size_t>(grad.ndim);
  const std::span<const std::int64_t> shape(grad.shape, ndim);
  if (!param.trainable) return "the parameter is frozen and takes none";
  if (grad.dtype.code != param.dtype.code || grad.dtype.bits != param.dtype.bits || grad.dtype.lanes != 1)
    return "it is " + text_of(grad.dtype) + ", the parameter " + text_of(param.dtype);
  if (!std::ranges::equal(shape, param.shape))
    return "its shape is " + text_of(shape) + ", the parameter's " + text_of(param.shape);
  const std::span<const std::int64_t> strides =
      grad.strides != nullptr ? std::span<const std::int64_t>(grad.strides, ndim) : param.row_major;
  if (!same_order(param.shape, param.strides, strides))
    return "its strides are " + text_of(strides) + ", the parameter's " + text_of(param.strides);
  if (grad.device.device_type != device_.device_type || grad.device.device_id != device_.device_id)
    return "it is on device " + text_of(grad.device) + ", the model on " + text_of(device_);
  if (grad.data == nullptr && param.numel > 0) return "it has no data";
  return {};
}

Result<void> GradientCheck::check(std::uint32_t param, const DLTensor& grad) const {
  if (param >= params_.size())
    return Error{ErrorKind::plugin, "a gradient arrived for parameter " + std::to_string(param) + ", the model has " +
                                        std::to_string(params_.size())};
  const std::string wrong = defect(params_[param], grad);
  if (wrong.empty()) return {};
  return Error{ErrorKind::plugin, "the gradient of " + params_[param].name + " is refused: " + wrong};
}

}  // namespace castor::sdk

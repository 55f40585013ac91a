// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>

namespace castor {

/// True of fp32, fp16 and bf16. A frozen parameter of another dtype is opaque: kept as it is.
bool computes(const at::Tensor& parameter);

/// Finds the parameters whose memory cannot be replaced: a strategy binds a storage to as many elements as the
/// parameter has, in the order of the storage.
class ParameterChecks {
 public:
  explicit ParameterChecks(c10::Device device) : device_(device) {}

  /// Errors: usage, naming the parameter, for a trained one that does not compute, one on another device, quantized,
  /// sparse, with a storage of another size or in the order of another parameter, with gaps or overlaps, and for one without
  /// memory unless it is `declared` or on the meta device.
  Result<void> check(const std::string& name, const at::Tensor& parameter, bool declared);

 private:
  std::string defect(const std::string& name, const at::Tensor& parameter, bool declared);
  std::string defect_of_storage(const at::Tensor& parameter) const;

  const c10::Device device_;
  std::unordered_map<const c10::StorageImpl*, std::string> names_;  // by storage
};

}  // namespace castor

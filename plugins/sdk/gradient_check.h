// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <castor/plugins/model_host.h>

namespace castor::sdk {

/// The gradients that a model may hand over: one of a trained parameter that has its shape, dtype and order of elements
/// and is on the model's device.
class GradientCheck {
 public:
  /// Errors: those of the host's param_info.
  static Result<GradientCheck> make(ModelHost& host);

  std::uint32_t n_params() const { return static_cast<std::uint32_t>(params_.size()); }
  /// Errors: plugin, with the first defect.
  Result<void> check(std::uint32_t param, const DLTensor& grad) const;

 private:
  struct Param {
    std::string name;
    bool trainable = false;
    DLDataType dtype = {};
    std::vector<std::int64_t> shape, strides;
    std::vector<std::int64_t> row_major;  ///< the strides of a gradient that names none
    std::uint64_t numel = 0;
  };
  GradientCheck() = default;
  std::string defect(const Param& param, const DLTensor& grad) const;

  DLDevice device_ = {};
  std::vector<Param> params_;
};

}  // namespace castor::sdk

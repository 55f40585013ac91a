// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/random.h>
#include <castor/plugins/torch/unit_border.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace castor {

/// A unit, whatever its module is: its border, and the parameters that it does not hold as other modules do.
class AnyUnit : public UnitBorder {
 public:
  /// A parameter that was registered without memory, and its initial values.
  struct Declared {
    at::Tensor parameter;
    Init init;
  };

  /// In the order of registration.
  const std::vector<Declared>& declared() const { return declared_; }
  /// Parameters of other units that this one uses.
  const std::vector<at::Tensor>& shared() const { return shared_; }

 protected:
  AnyUnit() = default;
  ~AnyUnit() = default;

  at::Tensor declare_in(torch::nn::Module& module, const std::string& name, at::IntArrayRef sizes,
                        const at::TensorOptions& options, Init init);
  /// Uses a parameter that another unit registers (a tied head). It is not registered again.
  void share(const at::Tensor& parameter) { shared_.push_back(parameter); }

 private:
  std::vector<Declared> declared_;
  std::vector<at::Tensor> shared_;
};

}  // namespace castor

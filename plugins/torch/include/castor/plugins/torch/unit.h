// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/random.h>
#include <castor/plugins/torch/unit_border.h>

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace castor {

/// A module with parameters of its own: `forward` of a subclass goes through `run`. Parameters are declared without
/// memory; a strategy binds them to memory.
class Unit : public torch::nn::Module, public UnitBorder {
 public:
  /// A parameter that this unit registered, and its initial values.
  struct Declared {
    at::Tensor parameter;
    Init init;
  };

  using Module::Module;

  /// In the order of registration.
  const std::vector<Declared>& declared() const { return declared_; }
  /// Parameters of other units that this one uses.
  const std::vector<at::Tensor>& shared() const { return shared_; }

 protected:
  /// Registers a parameter of `sizes` without memory, of the dtype and on the device of `options`. Touching it before
  /// it is bound throws c10::Error with "parameter NAME is declared but not placed yet" (where
  /// explains_released_access(), runtime.h).
  at::Tensor declare(const std::string& name, at::IntArrayRef sizes, const at::TensorOptions& options, Init init);
  /// Uses a parameter that another unit has declared (a tied head). It is not registered again.
  void share(const at::Tensor& parameter);

 private:
  std::vector<Declared> declared_;
  std::vector<at::Tensor> shared_;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/unit_forward.h>

#include <torch/nn/module.h>

#include <string>

namespace castor {

/// A module of type M that Castor fetches and releases as a whole, with the parameters that M has registered and the
/// values they have: `castor::Unit<torch::nn::LinearImpl>(64, 10)`. Its forward is M's. Parameters of modules within it
/// that are no units themselves are its own too.
///
/// `Unit<>` is the base of a layer of one's own, which declares its parameters without memory and wraps the body of its
/// forward in `run` (UnitBorder).
template <typename M = torch::nn::Module>
class Unit : public UnitForward<M, typename ForwardOf<M>::Signature> {
 public:
  using UnitForward<M, typename ForwardOf<M>::Signature>::UnitForward;

 protected:
  /// Registers a parameter of `sizes` without memory, of the dtype and on the device of `options`; a strategy gives it
  /// memory and these initial values. Touching it earlier throws c10::Error with "parameter NAME is declared but not
  /// placed yet".
  at::Tensor declare(const std::string& name, at::IntArrayRef sizes, const at::TensorOptions& options, Init init) {
    return this->declare_in(*this, name, sizes, options, init);
  }
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

namespace castor {

class TensorKeeper;

/// The calls that a unit makes around its work. Each may throw ErrorException, which ends the forward or backward pass
/// that the unit is in.
class UnitHooks {
 public:
  virtual void before_forward(std::uint32_t unit) = 0;
  virtual void after_forward(std::uint32_t unit) = 0;
  virtual void before_backward(std::uint32_t unit) = 0;
  virtual void after_backward(std::uint32_t unit) = 0;
  /// Takes tensors that backward reads again.
  virtual std::shared_ptr<TensorKeeper> keeper() = 0;

 protected:
  ~UnitHooks() = default;
};

}  // namespace castor

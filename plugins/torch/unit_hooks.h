// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

namespace castor {

class TensorKeeper;

/// What a unit calls around its work. Each call may throw ErrorException, which ends the forward or backward pass
/// that it came from.
class UnitHooks {
 public:
  virtual void before_forward(std::uint32_t unit) = 0;
  virtual void after_forward(std::uint32_t unit) = 0;
  virtual void before_backward(std::uint32_t unit) = 0;
  virtual void after_backward(std::uint32_t unit) = 0;
  /// Takes what backward will want again.
  virtual std::shared_ptr<TensorKeeper> keeper() = 0;

 protected:
  ~UnitHooks() = default;
};

}  // namespace castor

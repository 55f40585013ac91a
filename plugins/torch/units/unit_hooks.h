// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace castor {

class TensorKeeper;
class UnitUses;

/// The calls that units make around their work. Those around a pass may throw ErrorException, which ends the forward or
/// backward pass that the unit is in.
class UnitHooks {
 public:
  virtual void before_forward(std::uint32_t unit) = 0;
  virtual void after_forward(std::uint32_t unit) = 0;
  /// In place of after_forward where an exception ends the pass. Throws nothing.
  virtual void forward_cut_short(std::uint32_t unit) = 0;
  virtual void before_backward(std::uint32_t unit) = 0;
  virtual void after_backward(std::uint32_t unit) = 0;
  virtual UnitUses& uses() = 0;
  /// Whether `tensor` shares memory with a parameter of `unit`.
  virtual bool reads_parameter(std::uint32_t unit, const at::Tensor& tensor) const = 0;
  /// Whether a graph that is still there uses a trained parameter of `unit`.
  virtual bool is_in_graph(std::uint32_t unit) const = 0;
  /// Takes tensors that backward reads again.
  virtual std::shared_ptr<TensorKeeper> keeper() = 0;

 protected:
  ~UnitHooks() = default;
};

}  // namespace castor

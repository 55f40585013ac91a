// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model_map.h"

#include <castor/memory/result.h>

#include <cstdint>
#include <string>
#include <vector>

namespace castor {

/// Tensors without memory in place of the gradients that a strategy has (AdapterOptions::grad_message). Autograd would add
/// the next gradient to such a tensor, so they are there between backward passes only.
class GradientStandIns {
 public:
  /// Borrowed: the parameters. `message` follows the name of the parameter; empty: nothing stands in.
  GradientStandIns(const std::vector<ParamEntry>& params, std::string message)
      : params_(params), message_(std::move(message)), handed_over_(params.size()) {}

  /// The gradient of parameter `id` went to the strategy.
  void handed_over(std::uint32_t id) { handed_over_[id] = true; }
  void show();
  void hide();
  /// Errors: usage, where a program has set the gradient of a parameter, or has removed what stands for it.
  Result<void> check() const;
  /// The step has ended, and its gradients are gone. Returns the parameters that had one.
  std::vector<std::uint32_t> forget();

 private:
  const std::vector<ParamEntry>& params_;
  const std::string message_;
  std::vector<bool> handed_over_;  ///< by parameter, in this step
  bool are_shown_ = false;         ///< something stands in now for all that were handed over
};

}  // namespace castor

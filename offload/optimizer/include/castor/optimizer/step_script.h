// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace castor {

/// One call with which a model tells the engine what it does.
struct StepCall {
  enum class Kind : std::uint8_t {
    forward,          ///< unit `id` begins a forward pass
    backward,         ///< unit `id` begins a backward pass
    end_forward,      ///< unit `id` ends it
    end_backward,     ///< unit `id` ends it
    gradient,         ///< of tensor `id` of the layout arrives
    keep,             ///< an activation of `n_bytes`, number `id` of the step, is handed over
    recall,           ///< activation `id` is asked for
    forget,           ///< activation `id` is not needed any more
    announce,         ///< the options of the step are known
    end_of_backward,  ///< of a micro-batch
  };
  Kind kind = Kind::forward;
  std::uint32_t id = 0;
  std::uint64_t n_bytes = 0;
};

/// The calls of one step in their order, without the call that ends it.
using StepScript = std::vector<StepCall>;

}  // namespace castor

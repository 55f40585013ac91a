// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace torch::nn {
class Module;
}

namespace castor {

/// Chooses modules by their names in named_modules() and by themselves.
using ModuleFilter = std::function<bool(const std::string& name, const torch::nn::Module& module)>;

/// Chooses `modules`, and no others.
ModuleFilter exactly(std::vector<std::shared_ptr<torch::nn::Module>> modules);

struct AdapterOptions {
  /// Decides the initial values of the parameters that units declare.
  std::uint64_t seed = 0;
  /// Called at every unit, from threads of the strategy too; true ends the pass, and so does an exception. May be empty.
  std::function<bool()> interrupted = nullptr;
  /// Chooses the units of the model. Empty: all that are of a type castor::Unit. A module of another type is run by
  /// TorchAdapter::run.
  ModuleFilter is_unit = nullptr;
  /// Receives the messages of strategies, also from threads of theirs; its exceptions are dropped. Empty: so are they.
  std::function<void(castor_log_level level, std::string_view message)> log = nullptr;
  /// Asked before each forward pass of a unit that builds a graph: the micro-batch that begins with it, of which the
  /// strategy is told (begin_micro_batch); none where it has begun already. Empty: the strategy is not told.
  std::function<std::optional<castor_micro_batch>()> begun_micro_batch = nullptr;
  /// Asked before each forward pass of a unit outside backward: an error refuses the pass before the strategy hears of
  /// it. Empty: none is refused.
  std::function<Result<void>()> may_run_forward = nullptr;
  /// Backward passes go through TorchAdapter::backward, which tells the strategy of their end; others are refused.
  bool owns_backward = false;
};

}  // namespace castor

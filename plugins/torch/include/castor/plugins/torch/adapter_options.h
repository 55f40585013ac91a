// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>
#include <castor/plugins/torch/pass_rules.h>

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
  /// Borrowed, for the adapter's life. Null: every pass is allowed, and the strategy is told neither of micro-batches nor
  /// of the end of passes that do not come from TorchAdapter::backward.
  PassRules* passes = nullptr;
  /// Throws an error of a hook within backward in a form that the program's autograd passes on whole. Empty:
  /// ErrorException.
  std::function<void(const ErrorException& error)> rethrow = nullptr;
  /// After a backward pass that autograd has begun, parameter.grad() of each parameter whose gradient was handed over is a
  /// tensor without memory, an access to which throws this text after the parameter's name. Empty: it is undefined.
  std::string grad_message = {};
};

}  // namespace castor

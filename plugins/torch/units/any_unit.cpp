// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/any_unit.h>

#include "../parameter_storage.h"

#include <torch/nn/module.h>

namespace castor {

at::Tensor AnyUnit::declare_in(torch::nn::Module& module, const std::string& name, at::IntArrayRef sizes,
                               const at::TensorOptions& options, Init init) {
  at::Tensor parameter = make_unplaced(sizes, options);
  module.register_parameter(name, parameter);
  release_storage(storage_of(parameter), "parameter " + name + " is declared but not placed yet");
  declared_.push_back({parameter, init});
  return parameter;
}

}  // namespace castor

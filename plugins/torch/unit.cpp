// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/unit.h>

#include "parameter_storage.h"

namespace castor {

at::Tensor Unit::declare(const std::string& name, at::IntArrayRef sizes, const at::TensorOptions& options, Init init) {
  at::Tensor parameter = make_unplaced(sizes, options);
  register_parameter(name, parameter);
  release_storage(storage_of(parameter), "parameter " + name + " is declared but not placed yet");
  declared_.push_back({parameter, init});
  return parameter;
}

void Unit::share(const at::Tensor& parameter) { shared_.push_back(parameter); }

}  // namespace castor

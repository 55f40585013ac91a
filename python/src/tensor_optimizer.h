// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <map>
#include <string>

#include <castor/training/optimizer.h>

namespace castor::python {

/// The values of a group of parameters by their names in torch.optim.
using Values = std::map<std::string, double>;

/// A rule by the name of its class in torch.optim, in small letters.
Optimizer optimizer_of(const std::string& rule, const Values& values);

/// TensorOptimizer, whose tensors are given and taken as flat tensors on the host.
void bind_tensor_optimizer(pybind11::module_& module);

}  // namespace castor::python

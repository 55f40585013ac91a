// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace castor::python {

/// Recording: the step of a model on the meta device, and what a training of it takes.
void bind_forecast(pybind11::module_& module);

}  // namespace castor::python

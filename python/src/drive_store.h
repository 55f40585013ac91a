// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace castor::python {

/// DriveStore, a TensorStore whose values are tensors on the host, and the transfers that it begins.
void bind_drive_store(pybind11::module_& module);

}  // namespace castor::python

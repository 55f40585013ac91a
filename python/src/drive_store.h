// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <castor/io/io_engine.h>

#include <string>

namespace castor::python {

/// io_uring, threads, or best for any other name.
EngineChoice engine_named(const std::string& name);

/// DriveStore, a TensorStore whose values are tensors on the host, and the transfers that it begins.
void bind_drive_store(pybind11::module_& module);

}  // namespace castor::python

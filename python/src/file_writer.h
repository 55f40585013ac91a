// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace castor::python {

/// FileWriter: a file that is written in order, past the page cache, while the program goes on.
void bind_file_writer(pybind11::module_& module);

}  // namespace castor::python

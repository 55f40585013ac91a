// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/chunk/ids.h>
#include <castor/rules/step_options.h>

namespace castor {

/// A step's options by tensor of the layout.
using StepOptions = StepOptionsBy<TensorId>;

}  // namespace castor

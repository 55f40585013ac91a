// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <castor/plugins/booster.h>

namespace castor::train {

/// The descriptions of `model`'s parameters, by id, in the order of named_parameters; the model owns the names. Errors:
/// failed, with the model's message.
Result<std::vector<castor_param_info>> params_of(ModelHost& model);

}  // namespace castor::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <castor/plugins/booster.h>

namespace castor::train {

/// What `model` says of its parameters, by id, in the order of named_parameters; the names belong to the model.
/// Errors: failed, with the model's own words.
Result<std::vector<castor_param_info>> params_of(ModelHost& model);

}  // namespace castor::train

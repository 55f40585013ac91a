// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/chunk/ids.h>
#include <castor/plugins/booster.h>

namespace castor {

/// The descriptions of a model's parameters, in the order of named_parameters; the model owns the names.
using ModelParams = IndexedVector<ParamId, castor_param_info>;

/// Errors: the model's.
Result<ModelParams> params_of(ModelHost& model);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/training/model_params.h>

namespace castor {

Result<ModelParams> params_of(ModelHost& model) {
  ModelParams params(model.n_params());
  for (const ParamId id : params.ids()) {
    CASTOR_ASSIGN(params[id], model.param_info(number(id)));
  }
  return params;
}

}  // namespace castor

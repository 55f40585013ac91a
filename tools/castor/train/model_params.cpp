// SPDX-License-Identifier: Apache-2.0
#include "train/model_params.h"

namespace castor::train {

Result<ModelParams> params_of(ModelHost& model) {
  ModelParams params(model.n_params());
  for (const ParamId id : params.ids()) {
    CASTOR_ASSIGN(params[id], model.param_info(number(id)));
  }
  return params;
}

}  // namespace castor::train

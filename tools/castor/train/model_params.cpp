// SPDX-License-Identifier: Apache-2.0
#include "train/model_params.h"

#include <string>

namespace castor::train {

Result<ModelParams> params_of(ModelHost& model) {
  const castor_host_v1& host = model.table();
  ModelParams params(host.n_params(host.self));
  for (const ParamId id : params.ids())
    if (host.param_info(host.self, number(id), &params[id]) != CASTOR_OK)
      return Error{ErrorKind::failed, "parameter " + std::to_string(number(id)) + ": " + model.take_error()};
  return params;
}

}  // namespace castor::train

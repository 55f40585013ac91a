// SPDX-License-Identifier: Apache-2.0
#include "train/model_params.h"

#include <cstdint>
#include <string>

namespace castor::train {

Result<std::vector<castor_param_info>> params_of(ModelHost& model) {
  const castor_host_v1& host = model.table();
  std::vector<castor_param_info> params(host.n_params(host.self));
  for (std::uint32_t id = 0; id < params.size(); ++id)
    if (host.param_info(host.self, id, &params[id]) != CASTOR_OK)
      return Error{ErrorKind::failed, "parameter " + std::to_string(id) + ": " + model.take_error()};
  return params;
}

}  // namespace castor::train

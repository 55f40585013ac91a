/* SPDX-License-Identifier: Apache-2.0 */
/* create fails and gives the reason. */
#include "stub.h"

static castor_status create(const castor_host_v2 *host, const castor_option_value *const *values, size_t n_values,
                            const castor_strategy_v2 **out) {
  (void)values, (void)n_values, (void)out;
  const castor_error error = {.struct_size = sizeof error,
                              .status = CASTOR_DOES_NOT_FIT,
                              .message = "device tier: 96 MiB needed, 40 MiB there; raise device_budget to 96MiB",
                              .option = "device_budget",
                              .tier = CASTOR_DEVICE,
                              .needed_bytes = 96 << 20,
                              .available_bytes = 40 << 20};
  host->model->set_error(host->self, &error);
  return CASTOR_DOES_NOT_FIT;
}

STUB("stub_create_fails", .create = create)

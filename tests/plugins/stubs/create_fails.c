/* SPDX-License-Identifier: Apache-2.0 */
/* create fails and gives the reason. */
#include "stub.h"

static castor_status create(const castor_host_v1 *host, const castor_option_value *values, size_t n_values,
                            const castor_strategy_v1 **out) {
  (void)values, (void)n_values, (void)out;
  host->set_error(host->self, "device tier: 96 MiB needed, 40 MiB there; raise --device-budget to 96MiB");
  return CASTOR_DOES_NOT_FIT;
}

STUB("stub_create_fails", .create = create)

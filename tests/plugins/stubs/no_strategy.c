/* SPDX-License-Identifier: Apache-2.0 */
/* create reports success and returns nothing. */
#include "stub.h"

static castor_status create(const castor_host_v2 *host, const castor_option_value *const *values, size_t n_values,
                            const castor_strategy_v2 **out) {
  (void)host, (void)values, (void)n_values, (void)out;
  return CASTOR_OK;
}

STUB("stub_no_strategy", .create = create)

/* SPDX-License-Identifier: Apache-2.0 */
/* Needs a function that exists nowhere: the dynamic linker refuses it. */
#include "stub.h"

int castor_stub_defined_nowhere(void);

static castor_status create(const castor_host_v2 *host, const castor_option_value *const *values, size_t n_values,
                            const castor_strategy_v2 **out) {
  (void)host, (void)values, (void)n_values, (void)out;
  return castor_stub_defined_nowhere() ? CASTOR_FAILED : CASTOR_OK;
}

STUB("stub_unloadable", .create = create)

/* SPDX-License-Identifier: Apache-2.0 */
/* A strategy that cannot step; it must be destroyed all the same. */
#include "stub.h"

static void destroy(void *self) {
  const castor_host_v2 *host = self;
  host->model->log(host->self, CASTOR_LOG_INFO, "destroy");
}

static const castor_steps_v2 steps = {
    .struct_size = sizeof steps, .attach = unused_attach, .gradient = unused_gradient, .stats = unused_stats};
static const castor_values_v2 values_table = {.struct_size = sizeof values_table, .read_masters = unused_read_masters};
static castor_strategy_v2 strategy = {
    .struct_size = sizeof strategy, .steps = &steps, .values = &values_table, .destroy = destroy};

static castor_status create(const castor_host_v2 *host, const castor_option_value *const *values, size_t n_values,
                            const castor_strategy_v2 **out) {
  (void)values, (void)n_values;
  strategy.self = (void *)(uintptr_t)host;
  *out = &strategy;
  return CASTOR_OK;
}

STUB("stub_lacks_step", .create = create)

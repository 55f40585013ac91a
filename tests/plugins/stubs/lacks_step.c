/* SPDX-License-Identifier: Apache-2.0 */
/* A strategy that cannot step; it must be destroyed all the same. */
#include "stub.h"

static castor_status attach(void *self) {
  (void)self;
  abort();
}

static castor_status gradient(void *self, uint32_t param, DLManagedTensor *grad) {
  (void)self, (void)param, (void)grad;
  abort();
}

static castor_status read_masters(void *self, const castor_values *values) {
  (void)self, (void)values;
  abort();
}

static castor_status stats(void *self, castor_stats *out) {
  (void)self, (void)out;
  abort();
}

static void destroy(void *self) {
  const castor_host_v2 *host = self;
  host->model->log(host->self, CASTOR_LOG_INFO, "destroy");
}

static const castor_steps_v2 steps = {
    .struct_size = sizeof steps, .attach = attach, .gradient = gradient, .stats = stats};
static const castor_values_v2 values_table = {.struct_size = sizeof values_table, .read_masters = read_masters};
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

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

static castor_status read_master(void *self, uint32_t param, float *out) {
  (void)self, (void)param, (void)out;
  abort();
}

static castor_status stats(void *self, castor_stats *out) {
  (void)self, (void)out;
  abort();
}

static void destroy(void *self) {
  const castor_host_v1 *host = self;
  host->log(host->self, CASTOR_LOG_INFO, "destroy");
}

static castor_strategy_v1 strategy = {.struct_size = sizeof(castor_strategy_v1),
                                      .attach = attach,
                                      .gradient = gradient,
                                      .read_master = read_master,
                                      .stats = stats,
                                      .destroy = destroy};

static castor_status create(const castor_host_v1 *host, const castor_option_value *values, size_t n_values,
                            const castor_strategy_v1 **out) {
  (void)values, (void)n_values;
  strategy.self = (void *)(uintptr_t)host;
  *out = &strategy;
  return CASTOR_OK;
}

STUB("stub_lacks_step", .create = create)

/* SPDX-License-Identifier: Apache-2.0 */
/* minimal_c, which logs the micro-batches that it is told of: "micro-batch 0 of 2, flags 0". */
#define castor_plugin_query_v2 query_of_minimal_c
#include "../../plugins/minimal_c/minimal_c.c"
#undef castor_plugin_query_v2

static castor_status log_micro_batch(void *opaque, const castor_micro_batch *batch) {
  const trainer *self = opaque;
  char line[64];
  snprintf(line, sizeof line, "micro-batch %u of %u, flags %u", batch->index, batch->count, batch->flags);
  self->host->model->log(self->host->self, CASTOR_LOG_INFO, line);
  return CASTOR_OK;
}

static castor_status create_with_log(const castor_host_v2 *host, const castor_option_value *const *values, size_t n,
                                     const castor_strategy_v2 **out) {
  static castor_strategy_v2 strategy;
  static castor_steps_v2 steps;
  const castor_strategy_v2 *made = NULL;
  const castor_status status = query_of_minimal_c()->create(host, values, n, &made);
  if (status != CASTOR_OK) return status;
  strategy = *made, steps = *made->steps;
  steps.begin_micro_batch = log_micro_batch;
  strategy.steps = &steps;
  *out = &strategy;
  return CASTOR_OK;
}

CASTOR_PLUGIN_EXPORT const castor_plugin_info *castor_plugin_query_v2(void) {
  static castor_plugin_info info;
  info = *query_of_minimal_c();
  info.create = create_with_log;
  return &info;
}

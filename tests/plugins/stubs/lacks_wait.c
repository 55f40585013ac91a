/* SPDX-License-Identifier: Apache-2.0 */
/* A strategy that can begin a commit and cannot wait for it. */
#include "stub.h"

static castor_status attach(void *self) {
  (void)self;
  abort();
}

static castor_status gradient(void *self, uint32_t param, DLManagedTensor *grad) {
  (void)self, (void)param, (void)grad;
  abort();
}

static castor_status begin_step(void *self, const castor_step_args *args, uint64_t *out) {
  (void)self, (void)args, (void)out;
  abort();
}

static castor_status step_result(void *self, uint64_t ticket, castor_step_result *out) {
  (void)self, (void)ticket, (void)out;
  abort();
}

static castor_status stats(void *self, castor_stats *out) {
  (void)self, (void)out;
  abort();
}

static castor_status read_masters(void *self, const castor_values *values) {
  (void)self, (void)values;
  abort();
}

static castor_status commit_begin(void *self, const castor_commit_args *args) {
  (void)self, (void)args;
  abort();
}

static void destroy(void *self) { (void)self; }

static const castor_steps_v2 steps = {.struct_size = sizeof steps,
                                      .attach = attach,
                                      .gradient = gradient,
                                      .begin_step = begin_step,
                                      .step_result = step_result,
                                      .stats = stats};
static const castor_values_v2 values_table = {.struct_size = sizeof values_table, .read_masters = read_masters};
static const castor_commits_v2 commits = {.struct_size = sizeof commits, .commit_begin = commit_begin};
static const castor_strategy_v2 strategy = {.struct_size = sizeof strategy,
                                            .steps = &steps,
                                            .values = &values_table,
                                            .commits = &commits,
                                            .destroy = destroy};

static castor_status create(const castor_host_v2 *host, const castor_option_value *const *values, size_t n_values,
                            const castor_strategy_v2 **out) {
  (void)host, (void)values, (void)n_values;
  *out = &strategy;
  return CASTOR_OK;
}

STUB("stub_lacks_wait", .create = create)

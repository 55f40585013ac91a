/* SPDX-License-Identifier: Apache-2.0 */
/* A strategy that can begin a commit and cannot wait for it. */
#include "stub.h"

static castor_status commit_begin(void *self, const castor_commit_args *args) {
  (void)self, (void)args;
  abort();
}

static void destroy(void *self) { (void)self; }

static const castor_steps_v2 steps = {.struct_size = sizeof steps,
                                      .attach = unused_attach,
                                      .gradient = unused_gradient,
                                      .begin_step = unused_begin_step,
                                      .step_result = unused_step_result,
                                      .stats = unused_stats};
static const castor_values_v2 values_table = {.struct_size = sizeof values_table, .read_masters = unused_read_masters};
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Its table of steps ends behind stats, and nothing lies behind that in memory: a host that reads further faults. */
#define _DEFAULT_SOURCE
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stub.h"

#define STEPS_BYTES (offsetof(castor_steps_v2, stats) + sizeof(((castor_steps_v2 *)0)->stats))

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* `self` is the page that holds the table. */
static castor_status attach(void *self) { return (void)self, CASTOR_OK; }
static castor_status gradient(void *self, uint32_t param, DLManagedTensor *grad) {
  (void)self, (void)param;
  grad->deleter(grad);
  return CASTOR_OK;
}
static castor_status begin_step(void *self, const castor_step_args *args, uint64_t *out) {
  (void)self, (void)args;
  *out = 1;
  return CASTOR_OK;
}
static castor_status step_result(void *self, uint64_t ticket, castor_step_result *out) {
  (void)self, (void)ticket;
  out->grad_norm = 3;
  return CASTOR_OK;
}
static castor_status read_masters(void *self, const castor_values *values) {
  (void)self;
  *(float *)values->data = 7;
  return CASTOR_OK;
}
static castor_status stats(void *self, castor_stats *out) {
  (void)self;
  out->h2d_bytes = 11;
  return CASTOR_OK;
}
static void destroy(void *self) { munmap(self, 2 * page_bytes()); }

static const castor_values_v2 values_table = {.struct_size = sizeof values_table, .read_masters = read_masters};
static castor_strategy_v2 strategy = {.struct_size = sizeof strategy, .values = &values_table, .destroy = destroy};

static castor_status create(const castor_host_v2 *host, const castor_option_value *const *values, size_t n_values,
                            const castor_strategy_v2 **out) {
  const castor_steps_v2 newest = {.struct_size = STEPS_BYTES,
                                  .attach = attach,
                                  .gradient = gradient,
                                  .begin_step = begin_step,
                                  .step_result = step_result,
                                  .stats = stats};
  (void)host, (void)values, (void)n_values;
  char *const pages = mmap(NULL, 2 * page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page_bytes(), page_bytes(), PROT_NONE) != 0) return CASTOR_FAILED;
  void *const table = pages + page_bytes() - STEPS_BYTES;
  memcpy(table, &newest, STEPS_BYTES);
  strategy.self = pages;
  strategy.steps = table;
  *out = &strategy;
  return CASTOR_OK;
}

STUB("stub_short_table", .create = create)

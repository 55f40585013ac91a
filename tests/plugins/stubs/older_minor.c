/* SPDX-License-Identifier: Apache-2.0 */
/* As compiled against version 1.0: nothing lies behind its strategy, whose last function is destroy. A host that reads
 * further faults. */
#define _DEFAULT_SOURCE
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stub.h"

#define V10_BYTES (offsetof(castor_strategy_v1, destroy) + sizeof(void (*)(void *)))

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* `self` is the page that holds the strategy. */
static castor_status attach(void *self) { return (void)self, CASTOR_OK; }
static castor_status gradient(void *self, uint32_t param, DLManagedTensor *grad) {
  (void)self, (void)param;
  grad->deleter(grad);
  return CASTOR_OK;
}
static castor_status step(void *self, const castor_step_args *args, castor_step_result *out) {
  (void)self, (void)args;
  out->grad_norm = 3;
  return CASTOR_OK;
}
static castor_status read_master(void *self, uint32_t param, float *out) {
  (void)self, (void)param;
  *out = 7;
  return CASTOR_OK;
}
static castor_status stats(void *self, castor_stats *out) {
  (void)self;
  out->h2d_bytes = 11;
  return CASTOR_OK;
}
static void destroy(void *self) { munmap(self, 2 * page_bytes()); }

static castor_status create(const castor_host_v1 *host, const castor_option_value *values, size_t n_values,
                            const castor_strategy_v1 **out) {
  const castor_strategy_v1 newest = {.struct_size = V10_BYTES,
                                     .attach = attach,
                                     .gradient = gradient,
                                     .step = step,
                                     .read_master = read_master,
                                     .stats = stats,
                                     .destroy = destroy};
  (void)host, (void)values, (void)n_values;
  char *const pages = mmap(NULL, 2 * page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page_bytes(), page_bytes(), PROT_NONE) != 0) return CASTOR_FAILED;
  castor_strategy_v1 *const strategy = (castor_strategy_v1 *)(void *)(pages + page_bytes() - V10_BYTES);
  memcpy(strategy, &newest, V10_BYTES);
  strategy->self = pages;
  *out = strategy;
  return CASTOR_OK;
}

STUB("stub_older_minor", .abi_minor = 0, .create = create)

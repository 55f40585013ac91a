/* SPDX-License-Identifier: Apache-2.0 */
/* Sound in everything: logs the options it gets and every call, and trains nothing. It has an option of each type. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "stub.h"

static const castor_option *const OPTIONS[] = {
    STUB_OPTION(CASTOR_OPTION_BOOL, "prefetch", "true", 0, 0, NULL, "fetch ahead"),
    STUB_OPTION(CASTOR_OPTION_INT, "depth", "4", 1, 16, NULL, "how many units ahead"),
    STUB_OPTION(CASTOR_OPTION_FLOAT, "fraction", "0.5", 0, 1, NULL, "share of the states"),
    STUB_OPTION(CASTOR_OPTION_BYTES, "chunk", "32MiB", 65536, INFINITY, NULL, "size of a chunk"),
    STUB_OPTION(CASTOR_OPTION_STRING, "label", "", 0, 0, NULL, "for the log"),
    STUB_OPTION(CASTOR_OPTION_ENUM, "policy", "auto", 0, 0, "auto|static|cpu", "where data lies"),
    STUB_OPTION(CASTOR_OPTION_RETIRED, "lookahead", "", 0, 0, NULL, "set depth instead"),
};

static void note(void *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(void *self, const char *format, ...) {
  const castor_host_v2 *host = self;
  char line[128];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  host->model->log(host->self, CASTOR_LOG_INFO, line);
}

static castor_status attach(void *self) { return note(self, "attach"), CASTOR_OK; }
static castor_status before_forward(void *self, uint32_t unit) {
  return note(self, "before_forward %u", unit), CASTOR_OK;
}
static castor_status after_forward(void *self, uint32_t unit) {
  return note(self, "after_forward %u", unit), CASTOR_OK;
}
static castor_status before_backward(void *self, uint32_t unit) {
  return note(self, "before_backward %u", unit), CASTOR_OK;
}
static castor_status end_of_backward(void *self) { return note(self, "end_of_backward"), CASTOR_OK; }

/* Fails, so that there is an error in the middle of a step. */
static castor_status after_backward(void *self, uint32_t unit) {
  const castor_host_v2 *host = self;
  note(self, "after_backward %u", unit);
  return stub_fail(host, CASTOR_INTERRUPTED, "the stub was interrupted");
}

static castor_status gradient(void *self, uint32_t param, DLManagedTensor *grad) {
  note(self, "gradient %u", param);
  grad->deleter(grad);
  return CASTOR_OK;
}

static castor_status begin_micro_batch(void *self, const castor_micro_batch *batch) {
  note(self, "begin_micro_batch %u of %u", batch->index, batch->count);
  return CASTOR_OK;
}

static castor_status begin_step(void *self, const castor_step_args *args, uint64_t *out) {
  note(self, "begin_step lr=%g", args->lr);
  *out = 9;
  return CASTOR_OK;
}

static castor_status step_result(void *self, uint64_t ticket, castor_step_result *out) {
  note(self, "step_result %u", (unsigned)ticket);
  out->skipped = 1;
  out->grad_norm = 2.5;
  return CASTOR_OK;
}

static castor_status read_masters(void *self, const castor_values *values) {
  note(self, "read_masters %u", values->param);
  *(float *)values->data = 7;
  return CASTOR_OK;
}

static castor_status stats(void *self, castor_stats *out) {
  note(self, "stats of %u bytes", out->struct_size);
  out->h2d_bytes = 11;
  return CASTOR_OK;
}

static castor_status write_trace(void *self, const char *path) { return note(self, "write_trace %s", path), CASTOR_OK; }
static castor_status discard_gradients(void *self) { return note(self, "discard_gradients"), CASTOR_OK; }
static void destroy(void *self) { note(self, "destroy"); }

static const castor_steps_v2 steps = {
    .struct_size = sizeof steps,
    .attach = attach,
    .begin_micro_batch = begin_micro_batch,
    .before_forward = before_forward,
    .after_forward = after_forward,
    .before_backward = before_backward,
    .after_backward = after_backward,
    .gradient = gradient,
    .end_of_backward = end_of_backward,
    .begin_step = begin_step,
    .step_result = step_result,
    .discard_gradients = discard_gradients,
    .stats = stats,
    .write_trace = write_trace,
};

static castor_status acquire(void *self, const castor_access *access) {
  return note(self, "acquire %u", access->n), CASTOR_OK;
}
static castor_status release(void *self, const castor_access *access) {
  return note(self, "release %u", access->n), CASTOR_OK;
}

static const castor_values_v2 values_table = {.struct_size = sizeof values_table,
                                              .read_masters = read_masters,
                                              .acquire = acquire,
                                              .release = release};

static castor_strategy_v2 strategy = {
    .struct_size = sizeof strategy, .steps = &steps, .values = &values_table, .destroy = destroy};

static castor_status create(const castor_host_v2 *host, const castor_option_value *const *values, size_t n_values,
                            const castor_strategy_v2 **out) {
  strategy.self = (void *)(uintptr_t)host;
  for (size_t i = 0; i < n_values; ++i) note(strategy.self, "%s=%s", values[i]->name, values[i]->value);
  *out = &strategy;
  return CASTOR_OK;
}

STUB("stub_recorder", .n_options = sizeof OPTIONS / sizeof OPTIONS[0], .options = OPTIONS, .create = create)

/* SPDX-License-Identifier: Apache-2.0 */
/* Sound in everything: logs the options it gets and every call, and trains nothing. It has an option of each type. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "stub.h"

static const castor_option OPTIONS[] = {
    {"prefetch", CASTOR_OPTION_BOOL, "true", 0, 0, NULL, "fetch ahead"},
    {"depth", CASTOR_OPTION_INT, "4", 1, 16, NULL, "how many units ahead"},
    {"fraction", CASTOR_OPTION_FLOAT, "0.5", 0, 1, NULL, "share of the states"},
    {"chunk", CASTOR_OPTION_BYTES, "32MiB", 65536, INFINITY, NULL, "size of a chunk"},
    {"label", CASTOR_OPTION_STRING, "", 0, 0, NULL, "for the log"},
    {"policy", CASTOR_OPTION_ENUM, "auto", 0, 0, "auto|static|cpu", "where data lies"},
    {"lookahead", CASTOR_OPTION_RETIRED, "", 0, 0, NULL, "set depth instead"},
};

static void note(void *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(void *self, const char *format, ...) {
  const castor_host_v1 *host = self;
  char line[128];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  host->log(host->self, CASTOR_LOG_INFO, line);
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
  const castor_host_v1 *host = self;
  note(self, "after_backward %u", unit);
  host->set_error(host->self, "the stub was interrupted");
  return CASTOR_INTERRUPTED;
}

static castor_status gradient(void *self, uint32_t param, DLManagedTensor *grad) {
  note(self, "gradient %u", param);
  grad->deleter(grad);
  return CASTOR_OK;
}

static castor_status step(void *self, const castor_step_args *args, castor_step_result *out) {
  note(self, "step lr=%g", args->lr);
  out->skipped = 1;
  out->grad_norm = 2.5;
  return CASTOR_OK;
}

static castor_status read_master(void *self, uint32_t param, float *out) {
  note(self, "read_master %u", param);
  *out = 7;
  return CASTOR_OK;
}

static castor_status stats(void *self, castor_stats *out) {
  note(self, "stats of %u bytes", out->struct_size);
  out->h2d_bytes = 11;
  return CASTOR_OK;
}

static castor_status write_trace(void *self, const char *path) { return note(self, "write_trace %s", path), CASTOR_OK; }
static castor_status abandon_step(void *self) { return note(self, "abandon_step"), CASTOR_OK; }
static void destroy(void *self) { note(self, "destroy"); }

static castor_strategy_v1 strategy = {
    .struct_size = sizeof(castor_strategy_v1),
    .attach = attach,
    .before_forward = before_forward,
    .after_forward = after_forward,
    .before_backward = before_backward,
    .after_backward = after_backward,
    .gradient = gradient,
    .end_of_backward = end_of_backward,
    .step = step,
    .read_master = read_master,
    .stats = stats,
    .write_trace = write_trace,
    .destroy = destroy,
    .abandon_step = abandon_step,
};

static castor_status create(const castor_host_v1 *host, const castor_option_value *values, size_t n_values,
                            const castor_strategy_v1 **out) {
  strategy.self = (void *)(uintptr_t)host;
  for (size_t i = 0; i < n_values; ++i) note(strategy.self, "%s=%s", values[i].name, values[i].value);
  *out = &strategy;
  return CASTOR_OK;
}

STUB("stub_recorder", .n_options = sizeof OPTIONS / sizeof OPTIONS[0], .options = OPTIONS, .create = create)

/* SPDX-License-Identifier: Apache-2.0 */
/* A sound plugin description. Each stub overrides the fields that it gets wrong; a stub that is to be refused must
 * be refused before create runs. */
#ifndef CASTOR_TESTS_PLUGINS_STUB_H_
#define CASTOR_TESTS_PLUGINS_STUB_H_

#include <stdlib.h>

#include <castor/plugins/abi.h>

#define STUB_UNUSED __attribute__((unused))

static STUB_UNUSED castor_status must_not_run(const castor_host_v2* host, const castor_option_value* const* values,
                                              size_t n_values, const castor_strategy_v2** out) {
  (void)host, (void)values, (void)n_values, (void)out;
  abort();
}

/* Functions of a strategy that is refused before any of them runs. */
static STUB_UNUSED castor_status unused_attach(void* self) { return (void)self, abort(), CASTOR_FAILED; }
static STUB_UNUSED castor_status unused_gradient(void* self, uint32_t param, DLManagedTensor* grad) {
  return (void)self, (void)param, (void)grad, abort(), CASTOR_FAILED;
}
static STUB_UNUSED castor_status unused_begin_step(void* self, const castor_step_args* args, uint64_t* out) {
  return (void)self, (void)args, (void)out, abort(), CASTOR_FAILED;
}
static STUB_UNUSED castor_status unused_step_result(void* self, uint64_t ticket, castor_step_result* out) {
  return (void)self, (void)ticket, (void)out, abort(), CASTOR_FAILED;
}
static STUB_UNUSED castor_status unused_stats(void* self, castor_stats* out) {
  return (void)self, (void)out, abort(), CASTOR_FAILED;
}
static STUB_UNUSED castor_status unused_read_masters(void* self, const castor_values* values) {
  return (void)self, (void)values, abort(), CASTOR_FAILED;
}

/* Leaves an error with the host and returns its status. */
static STUB_UNUSED castor_status stub_fail(const castor_host_v2* host, castor_status status, const char* sentence) {
  const castor_error error = {.struct_size = sizeof error, .status = status, .message = sentence, .tier = -1};
  host->model->set_error(host->self, &error);
  return status;
}

#define STUB_OPTION(...) &(const castor_option){sizeof(castor_option), __VA_ARGS__}

#define STUB(stub_name, ...)                                                                \
  static const castor_plugin_info INFO = {.magic = CASTOR_PLUGIN_MAGIC,                     \
                                          .struct_size = sizeof(castor_plugin_info),        \
                                          .abi_major = CASTOR_ABI_MAJOR,                    \
                                          .abi_minor = CASTOR_ABI_MINOR,                    \
                                          .capabilities = CASTOR_CAP_CPU | CASTOR_CAP_CUDA, \
                                          .torch_tag = "",                                  \
                                          .castor_tag = "",                                 \
                                          .name = stub_name,                                \
                                          .version = "1.0",                                 \
                                          .summary = "a stub for the tests",                \
                                          .create = must_not_run,                           \
                                          __VA_ARGS__};                                     \
  const castor_plugin_info* castor_plugin_query_v2(void) { return &INFO; }

#endif /* CASTOR_TESTS_PLUGINS_STUB_H_ */

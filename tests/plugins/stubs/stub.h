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

/* SPDX-License-Identifier: Apache-2.0 */
/* A sound plugin description. Each stub overrides the fields that it gets wrong; a stub that is to be refused must
 * be refused before create runs. */
#ifndef CASTOR_TESTS_PLUGINS_STUB_H_
#define CASTOR_TESTS_PLUGINS_STUB_H_

#include <stdlib.h>

#include <castor/plugins/abi.h>

#define STUB_UNUSED __attribute__((unused))

static STUB_UNUSED castor_status must_not_run(const castor_host_v1* host, const castor_option_value* values,
                                              size_t n_values, const castor_strategy_v1** out) {
  (void)host, (void)values, (void)n_values, (void)out;
  abort();
}

#define STUB(stub_name, ...)                                                                \
  static const castor_plugin_info INFO = {.magic = CASTOR_PLUGIN_MAGIC,                     \
                                          .struct_size = sizeof(castor_plugin_info),        \
                                          .abi_major = CASTOR_ABI_MAJOR,                    \
                                          .abi_minor = CASTOR_ABI_MINOR,                    \
                                          .capabilities = CASTOR_CAP_CPU | CASTOR_CAP_CUDA, \
                                          .build_tag = "",                                  \
                                          .name = stub_name,                                \
                                          .version = "1.0",                                 \
                                          .summary = "a stub for the tests",                \
                                          .create = must_not_run,                           \
                                          __VA_ARGS__};                                     \
  const castor_plugin_info* castor_plugin_query_v1(void) { return &INFO; }

#endif /* CASTOR_TESTS_PLUGINS_STUB_H_ */

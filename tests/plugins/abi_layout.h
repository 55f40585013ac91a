/* SPDX-License-Identifier: Apache-2.0 */
/* The layout that a compiler gave the structs of abi.h: asked once in C and once in C++. */
#ifndef CASTOR_TESTS_PLUGINS_ABI_LAYOUT_H_
#define CASTOR_TESTS_PLUGINS_ABI_LAYOUT_H_

#include <castor/plugins/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ABI_LAYOUT_LENGTH = 37 };

#define ABI_LAYOUT                                                                                                    \
  {                                                                                                                   \
    sizeof(castor_plugin_info), offsetof(castor_plugin_info, capabilities), offsetof(castor_plugin_info, build_tag),  \
        offsetof(castor_plugin_info, create), sizeof(castor_host_v1), offsetof(castor_host_v1, bind),                 \
        offsetof(castor_host_v1, interrupted), sizeof(castor_strategy_v1), offsetof(castor_strategy_v1, gradient),    \
        offsetof(castor_strategy_v1, destroy), sizeof(castor_option), offsetof(castor_option, min),                   \
        sizeof(castor_option_value), sizeof(castor_param_info), sizeof(castor_unit_info),                             \
        sizeof(castor_device_memory), sizeof(castor_step_args), sizeof(castor_step_result), sizeof(castor_stats),     \
        sizeof(castor_param_state), offsetof(castor_step_args, loss_scale), offsetof(castor_step_args, max_value),    \
        offsetof(castor_step_args, n_groups), offsetof(castor_step_args, groups),                                     \
        offsetof(castor_step_args, group_of), sizeof(castor_param_group), offsetof(castor_param_group, weight_decay), \
        offsetof(castor_step_args, momentum), offsetof(castor_step_args, nesterov),                                   \
        offsetof(castor_param_group, momentum), offsetof(castor_step_args, trust_coefficient),                        \
        offsetof(castor_param_group, trust_coefficient), offsetof(castor_strategy_v1, write_state),                   \
        sizeof(castor_commit_result), sizeof(castor_committed_run), offsetof(castor_committed_run, n_note_bytes),     \
        offsetof(castor_stats, bound_seconds)                                                                         \
  }

extern const size_t abi_layout_in_c[ABI_LAYOUT_LENGTH];
extern const size_t abi_layout_in_cxx[ABI_LAYOUT_LENGTH];

#ifdef __cplusplus
}
#endif

#endif /* CASTOR_TESTS_PLUGINS_ABI_LAYOUT_H_ */

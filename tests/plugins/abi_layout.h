/* SPDX-License-Identifier: Apache-2.0 */
/* The layout that a compiler gave the structs of abi.h: asked once in C and once in C++. */
#ifndef CASTOR_TESTS_PLUGINS_ABI_LAYOUT_H_
#define CASTOR_TESTS_PLUGINS_ABI_LAYOUT_H_

#include <castor/plugins/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ABI_LAYOUT_LENGTH = 47 };

#define ABI_LAYOUT                                                                                                     \
  {                                                                                                                    \
    sizeof(castor_plugin_info), offsetof(castor_plugin_info, capabilities), offsetof(castor_plugin_info, torch_tag),   \
        offsetof(castor_plugin_info, create), sizeof(castor_host_v2), offsetof(castor_host_v2, model),                 \
        sizeof(castor_strategy_v2), offsetof(castor_strategy_v2, steps), offsetof(castor_strategy_v2, destroy),        \
        sizeof(castor_model_v2), offsetof(castor_model_v2, bind), offsetof(castor_model_v2, interrupted),              \
        sizeof(castor_device_v2), sizeof(castor_groups_v2), offsetof(castor_groups_v2, abort),                         \
        sizeof(castor_stages_v2), sizeof(castor_steps_v2), offsetof(castor_steps_v2, gradient),                        \
        offsetof(castor_steps_v2, write_trace), sizeof(castor_values_v2), offsetof(castor_values_v2, release),         \
        sizeof(castor_commits_v2), sizeof(castor_activations_v2), sizeof(castor_error),                                \
        offsetof(castor_error, needed_bytes), sizeof(castor_option), offsetof(castor_option, min),                     \
        sizeof(castor_option_value), sizeof(castor_param_info), offsetof(castor_param_info, storage_offset),           \
        sizeof(castor_param_layout), sizeof(castor_unit_info), sizeof(castor_unit_layout), sizeof(castor_buffer_info), \
        sizeof(castor_values), sizeof(castor_device_memory), sizeof(castor_group_info), sizeof(castor_collective),     \
        sizeof(castor_agreement), sizeof(castor_stage_call), sizeof(castor_pipeline_step), sizeof(castor_micro_batch), \
        sizeof(castor_param_group), sizeof(castor_step_args), sizeof(castor_step_result), sizeof(castor_stats),        \
        sizeof(castor_param_state)                                                                                     \
  }

extern const size_t abi_layout_in_c[ABI_LAYOUT_LENGTH];
extern const size_t abi_layout_in_cxx[ABI_LAYOUT_LENGTH];

#ifdef __cplusplus
}
#endif

#endif /* CASTOR_TESTS_PLUGINS_ABI_LAYOUT_H_ */

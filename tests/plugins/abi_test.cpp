// SPDX-License-Identifier: Apache-2.0
// abi.h is compiled as pedantic C11 and as C++20 with warnings as errors (meson.build); here the results are compared.
#include "abi_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace castor {
namespace {

/// Version 2.0 on a 64-bit machine, counted by hand from the fields. ABI 2 is provisional, but a change is to be seen.
constexpr std::size_t kVersion20[ABI_LAYOUT_LENGTH] = {
    80,  16,  24,  72,       // castor_plugin_info: 16 B of integers, the capabilities, six pointers, create
    48,  16,                 // castor_host_v2: size, self, four tables
    56,  16,  48,            // castor_strategy_v2: size, self, four tables, destroy
    136, 96,  128,           // castor_model_v2: size, then 16 functions; bind is the 12th
    48,                      // castor_device_v2: 5
    120, 112,                // castor_groups_v2: 14, abort is the last
    24,                      // castor_stages_v2: 2
    152, 56,  136,           // castor_steps_v2: 18; gradient is the 7th, write_trace the 17th
    80,  72,                 // castor_values_v2: 9, release is the last
    40,  32,                 // castor_commits_v2: 4; castor_activations_v2: 3
    48,  32,                 // castor_error
    56,  24,  24,            // castor_option, castor_option_value
    64,  56,  40,            // castor_param_info, castor_param_layout
    24,  16,  24,            // castor_unit_info, castor_unit_layout, castor_buffer_info
    40,  48,                 // castor_values, castor_device_memory
    32,  64,  24,            // castor_group_info, castor_collective, castor_agreement
    56,  24,  16,            // castor_stage_call, castor_pipeline_step, castor_micro_batch
    64,  120, 16,  144, 64,  // castor_param_group, step args, step result, stats, param state
};

TEST(Abi, HasOneLayoutInCAndInCxx) {
  EXPECT_TRUE(std::equal(abi_layout_in_c, abi_layout_in_c + ABI_LAYOUT_LENGTH, abi_layout_in_cxx));
}

TEST(Abi, HasTheLayoutOfVersion20) {
  for (int i = 0; i < ABI_LAYOUT_LENGTH; ++i) EXPECT_EQ(abi_layout_in_c[i], kVersion20[i]) << "entry " << i;
}

TEST(Abi, StatusesAreTheExitCodesOfTheCommand) {
  EXPECT_EQ(CASTOR_OK, 0);
  EXPECT_EQ(CASTOR_USAGE, 2);
  EXPECT_EQ(CASTOR_DOES_NOT_FIT, 3);
  EXPECT_EQ(CASTOR_IO, 4);
  EXPECT_EQ(CASTOR_PLUGIN, 5);
  EXPECT_EQ(CASTOR_INTERRUPTED, 130);
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
// abi.h is compiled as pedantic C11 and as C++20 with warnings as errors (meson.build); here the results are compared.
#include "abi_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace castor {
namespace {

/// Version 1.12 on a 64-bit machine, counted by hand from the fields. A released struct may grow at its end; no offset
/// may change.
constexpr std::size_t kVersion112[ABI_LAYOUT_LENGTH] = {
    72,  16,  24,  64,                 // castor_plugin_info: 16 B of integers, the capabilities, five pointers, create
    160, 72,  136,                     // castor_host_v1: size and self, then 18 functions; bind is the 8th
    192, 56,  104,                     // castor_strategy_v1: size and self, then 22 functions; destroy is the 12th
    56,  24,                           // castor_option
    16,  40,  24,  40,  120, 16, 144,  // value, param, unit, device memory, step args, step result, stats
    56,                                // castor_param_state
    56,  64,  72,  80,  88,            // castor_step_args: version 1.4 ended behind loss_scale, at 64
    64,  40,                           // castor_param_group: its size, padding, seven doubles
    96,  112, 48,  104, 56,            // the additions of 1.6: version 1.5 ended at 96, and its group at 48
    152,                               // castor_strategy_v1: version 1.4 ended behind write_state, its 18th function
    24,  32,  24,                      // castor_commit_result, castor_committed_run
    128,                               // castor_stats: version 1.7 ended there
};

TEST(Abi, HasOneLayoutInCAndInCxx) {
  EXPECT_TRUE(std::equal(abi_layout_in_c, abi_layout_in_c + ABI_LAYOUT_LENGTH, abi_layout_in_cxx));
}

TEST(Abi, KeepsTheLayoutOfVersion112) {
  for (int i = 0; i < ABI_LAYOUT_LENGTH; ++i) EXPECT_EQ(abi_layout_in_c[i], kVersion112[i]) << "entry " << i;
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

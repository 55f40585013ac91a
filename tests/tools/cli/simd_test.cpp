// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "check/probes.h"

namespace castor::check {
namespace {

TEST(SimdOf, ReadsTheFlagsOfAnX86) {
  EXPECT_EQ(simd_of("model name\t: X\nflags\t\t: fpu avx2 avx512f avx512bw\nbugs\t: none\n"), "AVX-512, AVX2");
}

TEST(SimdOf, ALastFlagCounts) { EXPECT_EQ(simd_of("flags\t\t: fpu sse2 avx2\n"), "AVX2"); }

TEST(SimdOf, APartOfAWordDoesNot) { EXPECT_EQ(simd_of("flags\t\t: avx2x xavx2 asimdhp\n"), ""); }

TEST(SimdOf, ReadsTheFeaturesOfAnArm) { EXPECT_EQ(simd_of("Features\t: fp asimd sve\n"), "NEON, SVE"); }

}  // namespace
}  // namespace castor::check

// SPDX-License-Identifier: Apache-2.0
// The spellings that options, JSON and trace files rely on.
#include <gtest/gtest.h>

#include <castor/memory/dtype.h>
#include <castor/memory/result.h>
#include <castor/memory/tier.h>
#include <castor/memory/timeline.h>

namespace castor {
namespace {

TEST(Names, Tiers) {
  EXPECT_STREQ(name(Tier::device), "device");
  EXPECT_STREQ(name(Tier::host), "host");
  EXPECT_STREQ(name(Tier::nvme), "nvme");
  for (const auto tier : kTiers) EXPECT_EQ(kTiers[index(tier)], tier);
}

TEST(Names, DTypesAndTheirSizes) {
  EXPECT_STREQ(name(DType::f32), "fp32");
  EXPECT_STREQ(name(DType::bf16), "bf16");
  EXPECT_STREQ(name(DType::f16), "fp16");
  EXPECT_EQ(size_bytes(DType::f32), 4u);
  EXPECT_EQ(size_bytes(DType::bf16), 2u);
  EXPECT_EQ(size_bytes(DType::f16), 2u);
}

TEST(Names, Lanes) {
  const std::array<const char*, kNLanes> names = {"compute",    "h2d",         "d2h", "nvme_read",
                                                  "nvme_write", "host_update", "wait"};
  for (std::size_t k = 0; k < kNLanes; ++k) {
    EXPECT_EQ(index(kLanes[k]), k);
    EXPECT_STREQ(name(kLanes[k]), names[k]);
  }
}

TEST(Names, Phases) {
  EXPECT_STREQ(name(Phase::none), "");
  EXPECT_STREQ(name(Phase::forward), "forward");
  EXPECT_STREQ(name(Phase::backward), "backward");
  EXPECT_STREQ(name(Phase::update), "update");
}

TEST(Names, ErrorKindsAndTheirExitCodes) {
  EXPECT_STREQ(name(ErrorKind::failed), "failed");
  EXPECT_STREQ(name(ErrorKind::usage), "usage");
  EXPECT_STREQ(name(ErrorKind::does_not_fit), "does_not_fit");
  EXPECT_STREQ(name(ErrorKind::io), "io");
  EXPECT_STREQ(name(ErrorKind::plugin), "plugin");
  EXPECT_STREQ(name(ErrorKind::interrupted), "interrupted");
  EXPECT_EQ(static_cast<int>(ErrorKind::does_not_fit), 3);
  EXPECT_EQ(static_cast<int>(ErrorKind::interrupted), 130);
}

TEST(Names, AValueThatIsNoneIsABrokenContract) {
  EXPECT_THROW((void)name(static_cast<Tier>(9)), ContractViolation);
  EXPECT_THROW((void)name(static_cast<DType>(9)), ContractViolation);
  EXPECT_THROW((void)name(static_cast<Lane>(9)), ContractViolation);
  EXPECT_THROW((void)name(static_cast<Phase>(9)), ContractViolation);
}

}  // namespace
}  // namespace castor

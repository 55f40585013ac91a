// SPDX-License-Identifier: Apache-2.0
#include <castor/parallel/nccl_communicator.h>

#include <gtest/gtest.h>

namespace castor {
namespace {

TEST(NcclCommunicator, WithoutNcclSaysHowToGetIt) {
  const auto id = make_nccl_id();
  const auto made = make_nccl_communicator(0, 1, NcclId(), 0);
  ASSERT_FALSE(id.ok());
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::failed);
  EXPECT_EQ(made.error().message, id.error().message);
  EXPECT_NE(id.error().message.find("without NCCL"), std::string::npos);
  EXPECT_NE(id.error().message.find("nvidia-nccl-cu13"), std::string::npos);
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/parallel/nccl_communicator.h>

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include <castor/memory/device.h>

namespace castor {
namespace {

TEST(NcclCommunicator, ARankOutsideTheWorldIsAUsageError) {
  for (const auto& [rank, world_size] : {std::pair(4, 4), std::pair(-1, 4), std::pair(0, 0)}) {
    const auto made = make_nccl_communicator(rank, world_size, NcclId(), 0);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, ErrorKind::usage);
    EXPECT_NE(made.error().message.find("rank " + std::to_string(rank) + " of " + std::to_string(world_size)),
              std::string::npos)
        << made.error().message;
  }
}

TEST(NcclCommunicator, WithoutAGpuSaysSo) {
  if (const auto n_devices = count_cuda_devices(); n_devices.ok())
    GTEST_SKIP() << "this machine has GPUs: " << n_devices.value();
  const auto made = make_nccl_communicator(0, 1, NcclId(), 0);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::failed);
  EXPECT_NE(made.error().message.find("no GPU"), std::string::npos) << made.error().message;
}

TEST(NcclCommunicator, ADeviceThatIsNotThereIsAUsageError) {
  const auto n_devices = count_cuda_devices();
  if (!n_devices.ok()) GTEST_SKIP() << n_devices.error().message;
  EXPECT_EQ(make_nccl_communicator(0, 1, NcclId(), n_devices.value()).error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace castor

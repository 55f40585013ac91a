// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/device.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace castor {
namespace {

TEST(CpuDevice, DescribesItself) {
  const auto device = make_cpu_device();
  EXPECT_EQ(device->kind(), DeviceKind::cpu);
  EXPECT_EQ(device->kernels(), KernelPlace::host);
  EXPECT_EQ(device->description(), "cpu");
  EXPECT_EQ(device->total_memory_bytes(), 0u);
  EXPECT_EQ(device->free_memory_bytes(), 0u);
}

TEST(CudaDevice, WithoutAGpuIsRefusedInOneLine) {
  const auto made = make_cuda_device(0);
  if (made.ok()) GTEST_SKIP() << "this machine has a GPU: " << made.value()->description();
  const auto& message = made.error().message;
  EXPECT_EQ(made.error().kind, ErrorKind::failed);
  EXPECT_TRUE(message.find("no GPU") != std::string::npos || message.find("without CUDA") != std::string::npos)
      << message;
  EXPECT_NE(message.find("`device` cpu"), std::string::npos) << message;
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0);
  EXPECT_EQ(count_cuda_devices().error().message, message);
}

TEST(CudaDevice, AnOrdinalBeyondTheLastIsAUsageError) {
  const auto n_devices = count_cuda_devices();
  if (!n_devices.ok()) GTEST_SKIP() << n_devices.error().message;
  for (const int ordinal : {-1, n_devices.value()}) {
    const auto made = make_cuda_device(ordinal);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, ErrorKind::usage);
    EXPECT_NE(made.error().message.find(std::to_string(ordinal)), std::string::npos) << made.error().message;
  }
}

TEST(CudaDevice, NamesTheGpuAndItsMemory) {
  const auto made = make_cuda_device(0);
  if (!made.ok()) GTEST_SKIP() << made.error().message;
  EXPECT_EQ(made.value()->kind(), DeviceKind::cuda);
  EXPECT_NE(made.value()->description(), "");
  EXPECT_GT(made.value()->total_memory_bytes(), 1u << 30);
  EXPECT_GT(made.value()->free_memory_bytes(), 0u);
  EXPECT_LE(made.value()->free_memory_bytes(), made.value()->total_memory_bytes());
}

}  // namespace
}  // namespace castor

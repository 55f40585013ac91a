// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/device.h>
#include <castor/memory/paged_pool.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

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

/// Slots of random sizes come and go in pages that are mapped elsewhere meanwhile; each holds what was copied to it.
TEST(CudaDevice, SlotsInPagesHoldWhatWasCopiedToThem) {
  const auto made = make_cuda_device(0);
  if (!made.ok()) GTEST_SKIP() << made.error().message;
  Device& gpu = **made;
  ASSERT_NE(gpu.pages(), nullptr) << "every GPU of the last years maps pages";
  const auto stream = gpu.make_stream().value();
  PagedPool pool(*gpu.pages(), gpu.pages()->grain_bytes(), [&stream] { return stream->record(); });
  std::mt19937 random(5);
  struct Slot {
    void* data;
    std::vector<unsigned> values;
    std::uint64_t n_bytes() const { return values.size() * sizeof(unsigned); }
  };
  std::vector<Slot> slots;
  for (int i = 0; i < 300; ++i) {
    if (slots.size() < 6 || random() % 2 == 0) {
      Slot slot{nullptr, std::vector<unsigned>((1 + random() % 20) << 18)};
      for (unsigned& value : slot.values) value = static_cast<unsigned>(random());
      slot.data = pool.allocate(slot.n_bytes()).value();
      stream->copy(slot.data, slot.values.data(), slot.n_bytes());
      slots.push_back(std::move(slot));
    } else {
      std::swap(slots[random() % slots.size()], slots.back());
      std::vector<unsigned> found(slots.back().values.size());
      stream->copy(found.data(), slots.back().data, slots.back().n_bytes());
      stream->synchronize().value();
      ASSERT_EQ(found, slots.back().values);
      pool.deallocate(slots.back().data, slots.back().n_bytes());
      slots.pop_back();
    }
  }
  for (const Slot& slot : slots) pool.deallocate(slot.data, slot.n_bytes());
  const std::uint64_t held_bytes = pool.held_bytes();
  EXPECT_EQ(pool.trim(), held_bytes);
}

}  // namespace
}  // namespace castor

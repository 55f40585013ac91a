// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/device.h>

namespace castor::testing {

/// The place where a kernel runs in a test: one set of cases runs on the host and on the first GPU. Without a GPU its
/// cases are skipped, with the reason.
class KernelPlace : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    auto device =
        GetParam() == DeviceKind::cpu ? Result<std::unique_ptr<Device>>(make_cpu_device()) : make_cuda_device(0);
    if (!device.ok()) GTEST_SKIP() << device.error().message;
    device_ = std::move(device).value();
    stream_ = GetParam() == DeviceKind::cpu ? device_->wrap_compute_stream(nullptr) : device_->make_stream().value();
  }

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }

  /// Device memory that holds `values` from its element `offset` on: an offset of 1 removes the alignment that suits
  /// vector loads.
  template <typename T>
  Buffer upload(const std::vector<T>& values, std::uint64_t offset = 0) {
    Buffer buffer = Buffer::allocate(device_->device_memory(), (offset + values.size() + 1) * sizeof(T)).value();
    if (!values.empty()) stream_->copy(buffer.data() + offset * sizeof(T), values.data(), values.size() * sizeof(T));
    return buffer;
  }

  /// The contents of `buffer` from element `offset` on, once all queued work has run.
  template <typename T>
  void download(const Buffer& buffer, std::vector<T>& values, std::uint64_t offset = 0) {
    if (!values.empty()) stream_->copy(values.data(), buffer.data() + offset * sizeof(T), values.size() * sizeof(T));
    stream_->synchronize().value();
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

inline std::string place_name(const ::testing::TestParamInfo<DeviceKind>& info) {
  return info.param == DeviceKind::cpu ? "host" : "cuda";
}

inline auto all_places() { return ::testing::Values(DeviceKind::cpu, DeviceKind::cuda); }

}  // namespace castor::testing

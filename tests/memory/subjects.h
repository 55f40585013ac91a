// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <castor/memory/device.h>

namespace castor::testing {

/// The host as the device: always there.
struct CpuSubject {
  std::string missing() const { return {}; }
  Device& device() { return *device_; }

 private:
  std::unique_ptr<Device> device_ = make_cpu_device();
};

/// The first GPU, or the reason why there is none.
struct CudaSubject {
  CudaSubject() {
    auto made = make_cuda_device(0);
    if (made.ok())
      device_ = std::move(made).value();
    else
      missing_ = made.error().message;
  }
  std::string missing() const { return missing_; }
  Device& device() { return *device_; }

 private:
  std::unique_ptr<Device> device_;
  std::string missing_;
};

}  // namespace castor::testing

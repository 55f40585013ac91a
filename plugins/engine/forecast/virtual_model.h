// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <castor/engine/recorded_model.h>
#include <castor/plugins/dl_dtype.h>
#include <castor/schedule/virtual_memory.h>

#include "virtual_device.h"

namespace castor {

/// The recorded model on a VirtualRig: it computes in virtual time, and its tensors and the device's chunks are counted
/// as one allocator would.
class VirtualModel final : public RecordedModel, private DeviceCalls {
 public:
  /// Borrowed.
  VirtualModel(const RecordedStep& step, VirtualRig& rig, const ForecastMachine& machine)
      : RecordedModel(step), rig_(rig), machine_(machine) {}

  DLDevice device() override { return {on_gpu() ? kDLCUDA : kDLCPU, 0}; }
  DeviceCalls* device_memory() override { return on_gpu() ? this : nullptr; }
  Result<void> first_values(const castor_values&) override { return {}; }

 private:
  bool on_gpu() const { return machine_.kind == DeviceKind::cuda; }

  Result<void*> allocate(std::uint64_t n_bytes) override { return take(n_bytes), addresses_.allocate(n_bytes); }
  void deallocate(void*, std::uint64_t n_bytes) override { held_bytes_ -= n_bytes; }
  Result<castor_device_memory> memory() override {
    const std::uint64_t now_bytes = held_bytes_ + own_bytes_;
    return castor_device_memory{sizeof(castor_device_memory), now_bytes, peak_bytes_, now_bytes, peak_bytes_,
                                machine_.device_bytes};
  }
  void reset_peak() override { peak_bytes_ = held_bytes_ + own_bytes_; }
  void limit(std::uint64_t) override {}

  void work(const RecordedCall& call) override {
    own_bytes_ = call.peak_bytes;
    take(0);
    rig_.compute(call.flops);
  }
  /// Its bytes are counted until the strategy has read it.
  DLManagedTensor* gradient(std::uint32_t param) override {
    DLManagedTensor* const made = gradient_at(param, nullptr, this, [](DLManagedTensor* self) {
      static_cast<VirtualModel*>(self->manager_ctx)->held_bytes_ -= bytes_of(self->dl_tensor);
      delete self;
    });
    take(bytes_of(made->dl_tensor));
    return made;
  }
  void keep_own(std::uint64_t n_bytes) override { take(n_bytes); }
  void forget_own(std::uint64_t n_bytes) override { held_bytes_ -= n_bytes; }

  static std::uint64_t bytes_of(const DLTensor& tensor) {
    std::uint64_t n_bytes = value_bytes(tensor.dtype);
    for (std::int32_t i = 0; i < tensor.ndim; ++i) n_bytes *= static_cast<std::uint64_t>(tensor.shape[i]);
    return n_bytes;
  }

  void take(std::uint64_t n_bytes) {
    held_bytes_ += n_bytes;
    peak_bytes_ = std::max(peak_bytes_, held_bytes_ + own_bytes_);
  }

  VirtualRig& rig_;
  const ForecastMachine& machine_;
  VirtualMemory addresses_;
  std::uint64_t own_bytes_ = 0;                    ///< of the call under way
  std::uint64_t held_bytes_ = 0, peak_bytes_ = 0;  ///< held: chunks, and gradients on their way
};

}  // namespace castor

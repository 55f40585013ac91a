// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <castor/memory/device_kind.h>
#include <castor/memory/memory_resource.h>
#include <castor/memory/page_source.h>
#include <castor/memory/stream.h>

namespace castor {

/// The kernels that update, add up and measure data in a device's memory.
enum class KernelPlace : std::uint8_t {
  host,     ///< host code on the calling thread
  gpu,      ///< kernels that are queued on a stream
  nowhere,  ///< they touch no data: the device's memory is addresses alone
};

/// The place where the model computes: streams that carry copies and kernels, and the two kinds of memory they move
/// between.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceKind kind() const = 0;
  virtual KernelPlace kernels() const { return kind() == DeviceKind::cpu ? KernelPlace::host : KernelPlace::gpu; }
  /// For people: `cpu`, or the GPU's product name.
  virtual std::string description() const = 0;
  /// A new stream beside all others. Errors: failed.
  virtual Result<std::unique_ptr<Stream>> make_stream() = 0;
  /// The stream the model computes on: a wrapper around the caller's handle on CUDA (null = the default stream), on the
  /// CPU the calling thread itself.
  virtual std::unique_ptr<Stream> wrap_compute_stream(void* native_handle) = 0;
  /// Device memory, unlimited and unpooled.
  virtual MemoryResource& device_memory() = 0;
  /// Host memory that this device copies to and from at full speed: pinned for a GPU, ordinary for the CPU.
  virtual MemoryResource& host_memory() = 0;
  /// Pages of the device's memory that can be mapped anywhere; null where it has none.
  virtual PageSource* pages() { return nullptr; }
  /// Bytes of the device's memory in all; 0 where it has none of its own.
  virtual std::uint64_t total_memory_bytes() const = 0;
  /// Bytes of it that no process on the machine has taken; 0 where the device has no memory of its own.
  virtual std::uint64_t free_memory_bytes() const = 0;
};

/// The host as the compute device. Its device tier is ordinary DRAM, so that every path runs on every machine.
std::unique_ptr<Device> make_cpu_device();

/// How many CUDA devices there are. Errors: failed, with the reason in one sentence: the build has no CUDA, or the
/// machine no GPU.
Result<int> count_cuda_devices();

/// Opens CUDA device `ordinal` and makes it current for the calling thread. Errors: failed, as count_cuda_devices;
/// usage where there are fewer devices.
Result<std::unique_ptr<Device>> make_cuda_device(int ordinal);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <castor/memory/buffer.h>
#include <castor/memory/device.h>
#include <castor/rules/adam.h>

#include "bench/adam/way.h"

namespace castor::bench {

/// The update by a device in its own memory, and a copy there that moves as many bytes.
class GpuWays {
 public:
  /// Copies the values of `host` to the device and allocates a target of the size that `copy` writes. `device` is
  /// borrowed.
  /// Errors: does_not_fit; failed.
  static Result<std::unique_ptr<GpuWays>> make(Device& device, const UpdateArrays& host);

  /// Both queue several operations on a stream before they wait, so that the device does not idle. They borrow this
  /// object.
  Way update();
  Way copy();

 private:
  GpuWays() = default;
  Result<void> upload(const UpdateArrays& host);
  Result<std::uint64_t> several(const std::function<Result<void>()>& queue_one);

  std::unique_ptr<Stream> stream_;
  std::unique_ptr<AdamKernel> kernel_;
  Buffer states_, target_;
  UpdateArrays arrays_;
};

}  // namespace castor::bench

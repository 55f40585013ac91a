// SPDX-License-Identifier: Apache-2.0
// A GPU for machines without one: its memory is ordinary host memory, its streams copy at once on the calling thread,
// and its time is a manual clock's.
#pragma once

#include <cstdint>
#include <memory>

#include <castor/memory/device.h>

#include "fake_allocator.h"
#include "fake_pages.h"
#include "manual_clock.h"
#include "nth_call.h"

namespace castor::test {

/// The settings of a FakeGpu. All borrowed.
struct FakeGpuParts {
  const FakeAllocator& allocator;  ///< what it holds is not free
  const ManualClock& clock;
  std::uint64_t others_bytes = 0;         ///< taken by other processes
  NthCall* failing_copy = nullptr;        ///< of all streams; null: none fails
  MemoryResource* host_memory = nullptr;  ///< null: ordinary memory
  FakePages* pages = nullptr;             ///< null: none can be mapped
};

std::unique_ptr<Device> make_fake_gpu(const FakeGpuParts& parts);

}  // namespace castor::test

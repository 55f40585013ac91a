// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_memory.h"

#include <sys/mman.h>

#include <castor/memory/bytes.h>

namespace castor::bench {
namespace {

constexpr std::uint64_t kHugePageBytes = 2 * kMiB;

}  // namespace

Result<BenchMemory> BenchMemory::allocate(std::uint64_t n_bytes) {
  BenchMemory memory;
  const std::uint64_t whole_bytes = align_up(n_bytes, kHugePageBytes);
  memory.resource_ = std::make_unique<HostResource>();
  CASTOR_ASSIGN(memory.buffer_, Buffer::allocate(*memory.resource_, whole_bytes + kHugePageBytes));
  const auto address = reinterpret_cast<std::uintptr_t>(memory.buffer_.data());
  const BufferView whole = memory.buffer_.view().part(align_up(address, kHugePageBytes) - address, whole_bytes);
  ::madvise(whole.data, whole.n_bytes, MADV_HUGEPAGE);  // a wish; where it is not granted there are small pages
  memory.view_ = whole.part(0, n_bytes);
  return memory;
}

}  // namespace castor::bench

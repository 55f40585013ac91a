// SPDX-License-Identifier: Apache-2.0
#include "memory_resource_suite.h"

#include <castor/memory/budget.h>
#include <castor/memory/host_resource.h>
#include <castor/memory/limited_resource.h>
#include <castor/memory/pool_resource.h>

#include "subjects.h"

namespace castor::conformance {
namespace {

struct HostSubject : testing::CpuSubject {
  MemoryResource& resource() { return resource_; }
  std::uint64_t align_bytes() const { return kBufferAlignBytes; }
  HostResource resource_;
};

struct LimitedSubject : testing::CpuSubject {
  MemoryResource& resource() { return resource_; }
  std::uint64_t align_bytes() const { return kBufferAlignBytes; }
  HostResource host_;
  Budget budget_{Tier::host, 64 * kMiB};
  LimitedResource resource_{host_, budget_};
};

struct PoolSubject : testing::CpuSubject {
  MemoryResource& resource() { return resource_; }
  std::uint64_t align_bytes() const { return kBufferAlignBytes; }
  HostResource host_;
  PoolResource resource_{host_};
};

/// The stack of resources below chunks: a pool whose kept blocks count against the budget.
struct PoolUnderBudgetSubject : testing::CpuSubject {
  MemoryResource& resource() { return resource_; }
  std::uint64_t align_bytes() const { return kBufferAlignBytes; }
  HostResource host_;
  Budget budget_{Tier::host, 64 * kMiB};
  LimitedResource limited_{host_, budget_};
  PoolResource resource_{limited_};
};

struct CudaMemorySubject : testing::CudaSubject {
  MemoryResource& resource() { return device().device_memory(); }
  std::uint64_t align_bytes() const { return kTensorAlignBytes; }
};

struct PinnedSubject : testing::CudaSubject {
  MemoryResource& resource() { return device().host_memory(); }
  std::uint64_t align_bytes() const { return kBufferAlignBytes; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Host, MemoryResourceSuite, HostSubject);
INSTANTIATE_TYPED_TEST_SUITE_P(Limited, MemoryResourceSuite, LimitedSubject);
INSTANTIATE_TYPED_TEST_SUITE_P(Pool, MemoryResourceSuite, PoolSubject);
INSTANTIATE_TYPED_TEST_SUITE_P(PoolUnderBudget, MemoryResourceSuite, PoolUnderBudgetSubject);
INSTANTIATE_TYPED_TEST_SUITE_P(CudaMemory, MemoryResourceSuite, CudaMemorySubject);
INSTANTIATE_TYPED_TEST_SUITE_P(Pinned, MemoryResourceSuite, PinnedSubject);

}  // namespace
}  // namespace castor::conformance

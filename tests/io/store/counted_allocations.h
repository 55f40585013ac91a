// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace castor::test {

/// Counts the allocations of all threads while the object lives: operator new and every other call of malloc or one of
/// its siblings, which counted_allocations.cpp replaces in the program it is linked into. One object at a time.
class AllocationCount {
 public:
  AllocationCount();
  ~AllocationCount();
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;

  std::uint64_t so_far() const;
};

}  // namespace castor::test

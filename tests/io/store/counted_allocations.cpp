// SPDX-License-Identifier: Apache-2.0
// malloc and its siblings: each is counted and passed on to glibc's. operator new of libstdc++ calls them.
#include "counted_allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

std::atomic<bool> counting = false;
std::atomic<std::uint64_t> n_allocations = 0;

void count() {
  if (counting.load(std::memory_order_relaxed)) n_allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

extern "C" {

void* __libc_malloc(std::size_t n_bytes);
void* __libc_calloc(std::size_t n, std::size_t n_bytes);
void* __libc_realloc(void* old, std::size_t n_bytes);
void* __libc_memalign(std::size_t align, std::size_t n_bytes);

void* malloc(std::size_t n_bytes) { return count(), __libc_malloc(n_bytes); }
void* calloc(std::size_t n, std::size_t n_bytes) { return count(), __libc_calloc(n, n_bytes); }
void* realloc(void* old, std::size_t n_bytes) { return count(), __libc_realloc(old, n_bytes); }
void* memalign(std::size_t align, std::size_t n_bytes) { return count(), __libc_memalign(align, n_bytes); }
void* aligned_alloc(std::size_t align, std::size_t n_bytes) { return count(), __libc_memalign(align, n_bytes); }
int posix_memalign(void** result, std::size_t align, std::size_t n_bytes) {
  count();
  *result = __libc_memalign(align, n_bytes);
  return *result ? 0 : ENOMEM;
}

}  // extern "C"

namespace castor::test {

AllocationCount::AllocationCount() {
  n_allocations = 0;
  counting = true;
}

AllocationCount::~AllocationCount() { counting = false; }

std::uint64_t AllocationCount::so_far() const { return n_allocations; }

}  // namespace castor::test

// SPDX-License-Identifier: Apache-2.0
#include "meta_memory.h"

#include <castor/memory/bytes.h>

#include <algorithm>
#include <mutex>

namespace castor {
namespace {

constexpr std::uint64_t kBlockBytes = 512;

}  // namespace

struct MetaMemory::Count {
  std::mutex mutex;
  std::uint64_t live_bytes = 0, peak_bytes = 0;
  bool within_operator = false;

  void add(std::uint64_t n_bytes) {
    const std::scoped_lock lock(mutex);
    live_bytes += n_bytes;
    if (!within_operator) peak_bytes = std::max(peak_bytes, live_bytes);
  }
  void set_within(bool within) {
    const std::scoped_lock lock(mutex);
    within_operator = within;
    if (!within) peak_bytes = std::max(peak_bytes, live_bytes);
  }
  void subtract(std::uint64_t n_bytes) {
    const std::scoped_lock lock(mutex);
    live_bytes -= n_bytes;
  }
};

/// One allocation, from its begin to its end.
struct MetaMemory::Block {
  Block(std::shared_ptr<Count> in, std::uint64_t bytes) : count(std::move(in)), n_bytes(bytes) { count->add(n_bytes); }
  ~Block() { count->subtract(n_bytes); }
  const std::shared_ptr<Count> count;
  const std::uint64_t n_bytes;
};

MetaMemory::MetaMemory() : before_(c10::GetAllocator(c10::kMeta)), count_(std::make_shared<Count>()) {
  c10::SetAllocator(c10::kMeta, this);
}

MetaMemory::~MetaMemory() { c10::SetAllocator(c10::kMeta, before_); }

std::uint64_t MetaMemory::take_peak() {
  const std::scoped_lock lock(count_->mutex);
  return std::exchange(count_->peak_bytes, count_->live_bytes);
}

void MetaMemory::begin_operator() { count_->set_within(true); }
void MetaMemory::end_operator() { count_->set_within(false); }

c10::DataPtr MetaMemory::allocate(std::size_t n_bytes) {
  auto block = std::make_unique<Block>(count_, align_up(n_bytes, kBlockBytes));
  return {nullptr, block.release(), [](void* ended) { delete static_cast<Block*>(ended); }, c10::kMeta};
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "store_space.h"

#include <algorithm>

#include <castor/memory/bytes.h>

namespace castor {

std::uint64_t StoreSpace::whole_bytes(std::uint64_t n_bytes) {
  return align_up(std::max<std::uint64_t>(n_bytes, 1), ExtentAllocator::kGrainBytes);
}

Result<std::unique_ptr<StoreSpace>> StoreSpace::open(const std::vector<std::string>& folders, Budget* budget) {
  if (folders.empty()) return Error{ErrorKind::usage, "a tensor store needs at least one folder; name one with --nvme"};
  std::unique_ptr<StoreSpace> space(new StoreSpace(budget));
  for (const auto& folder : folders) {
    CASTOR_ASSIGN(DirectFile file, DirectFile::create_unnamed(folder));
    space->volumes_.push_back(std::make_unique<Volume>(std::move(file)));
  }
  return space;
}

StoreSpace::~StoreSpace() {
  if (budget_) budget_->release(allocated_bytes_);
}

Result<void> StoreSpace::count_in(std::uint64_t key, std::uint64_t n_bytes) {
  if (!budget_ || budget_->try_reserve(n_bytes)) return {};
  return Error{ErrorKind::does_not_fit, std::string(name(budget_->tier())) + " tier: key " + std::to_string(key) +
                                            " needs " + format_bytes(n_bytes) + ", " +
                                            format_bytes(budget_->free_bytes()) + " are free under the " +
                                            format_bytes(budget_->limit_bytes()) + " budget; raise it to " +
                                            format_bytes(budget_->used_bytes() + n_bytes) + " or more"};
}

void StoreSpace::count_out(std::uint64_t n_bytes) {
  if (budget_) budget_->release(n_bytes);
}

Result<Placement> StoreSpace::allocate(std::uint64_t n_bytes) {
  const std::lock_guard lock(mutex_);
  const auto emptiest = std::min_element(volumes_.begin(), volumes_.end(), [](const auto& a, const auto& b) {
    return a->extents.allocated_bytes() < b->extents.allocated_bytes();
  });
  CASTOR_ASSIGN(const Extent extent, (*emptiest)->extents.allocate(n_bytes));
  allocated_bytes_ += extent.n_bytes;
  peak_allocated_bytes_ = std::max(peak_allocated_bytes_, allocated_bytes_);
  return Placement{static_cast<std::size_t>(emptiest - volumes_.begin()), extent};
}

void StoreSpace::release(const Placement& placement) {
  const std::lock_guard lock(mutex_);
  volumes_[placement.file]->extents.free(placement.extent);
  allocated_bytes_ -= placement.extent.n_bytes;
  count_out(placement.extent.n_bytes);
}

Result<Placement> StoreSpace::take(std::uint64_t key, std::uint64_t n_bytes) {
  const auto needed_bytes = whole_bytes(n_bytes);
  CASTOR_TRY(count_in(key, needed_bytes));
  auto placement = allocate(needed_bytes);
  if (!placement.ok()) {
    count_out(needed_bytes);
    return placement.error();
  }
  const auto& extent = placement->extent;
  if (auto reserved = file(*placement).reserve(extent.offset_bytes, extent.n_bytes); !reserved.ok()) {
    give_back(*placement);  // what was set aside before the room ran out
    return reserved.error();
  }
  return placement;
}

void StoreSpace::give_back(const Placement& placement) {
  // A hole that cannot be punched costs the file system room until the store closes; the extent itself is as good as
  // before.
  (void)file(placement).punch(placement.extent.offset_bytes, placement.extent.n_bytes);
  release(placement);
}

std::uint64_t StoreSpace::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocated_bytes_;
}

std::uint64_t StoreSpace::peak_allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_allocated_bytes_;
}

std::vector<std::string> StoreSpace::warnings() const {
  std::vector<std::string> sentences;
  for (const auto& volume : volumes_) {
    if (!volume->file.direct()) sentences.push_back(volume->file.fallback_reason());
  }
  return sentences;
}

}  // namespace castor

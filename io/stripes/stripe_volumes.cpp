// SPDX-License-Identifier: Apache-2.0
#include "stripe_volumes.h"

#include <utility>

#include <castor/io/folder.h>

namespace castor {

std::uint64_t placed_bytes(const Placement& placement) {
  std::uint64_t n_bytes = 0;
  for (const auto& extent : placement.extents) n_bytes += extent.n_bytes;
  return n_bytes;
}

StripeVolumes::StripeVolumes(std::vector<DirectFile> files, std::uint64_t limit_bytes) {
  for (auto& file : files) volumes_.push_back(std::make_unique<StripeVolume>(std::move(file), limit_bytes));
}

StripeVolumes::~StripeVolumes() {
  for (const auto& volume : volumes_) volume->close();
}

std::optional<StripeRefusal> StripeVolumes::allocate(std::uint64_t key, Placement& placement,
                                                     std::vector<bool>& is_new) {
  const std::lock_guard lock(mutex_);
  auto& extents = placement.extents;
  for (std::size_t v = 0; v < size(); ++v) {
    if (extents[v].n_bytes == 0) continue;
    const auto taken = volumes_[v]->allocate(key, extents[v].n_bytes);
    if (!taken.ok()) {
      for (auto rest = v; rest < size(); ++rest) extents[rest] = {};
      Error why{taken.error().kind, volumes_[v]->file().path() + ": " + taken.error().message};
      return StripeRefusal{v, volumes_[v]->largest_free_bytes(), std::move(why)};
    }
    extents[v] = taken->extent;
    is_new[v] = taken->is_new;
  }
  return std::nullopt;
}

std::optional<StripeRefusal> StripeVolumes::back(std::size_t volume, const StripeVolume::Taken& taken,
                                                 std::uint64_t most_ahead_bytes) {
  const auto backed = volumes_[volume]->back(taken, most_ahead_bytes);
  if (backed.ok()) return std::nullopt;
  const auto free = available_bytes(volumes_[volume]->file().folder());
  return StripeRefusal{volume, free.ok() ? *free : 0, backed.error()};
}

Result<void> StripeVolumes::claim(std::uint64_t key, const Placement& placement) {
  const std::lock_guard lock(mutex_);
  const auto& extents = placement.extents;
  for (std::size_t v = 0; v < size(); ++v) {
    const auto claimed = extents[v].n_bytes == 0 ? Result<void>() : volumes_[v]->claim(key, extents[v]);
    if (claimed.ok()) continue;
    while (v-- > 0)
      if (extents[v].n_bytes > 0) volumes_[v]->unclaim(key, extents[v]);
    return claimed.error();
  }
  for (const auto& volume : volumes_) volume->keep_claims();
  return {};
}

void StripeVolumes::drop_unclaimed() {
  const std::lock_guard lock(mutex_);
  for (const auto& volume : volumes_) volume->drop_unclaimed();
}

void StripeVolumes::give_back(std::uint64_t key, const Placement& placement) {
  for (std::size_t v = 0; v < size(); ++v)
    if (placement.extents.at(v).n_bytes > 0) volumes_[v]->punch(placement.extents[v]);
  const std::lock_guard lock(mutex_);
  for (std::size_t v = 0; v < size(); ++v)
    if (placement.extents[v].n_bytes > 0) volumes_[v]->free(key, placement.extents[v]);
}

std::string StripeVolumes::held_text(std::size_t volume) const {
  const std::lock_guard lock(mutex_);
  return volumes_.at(volume)->held_text();
}

}  // namespace castor

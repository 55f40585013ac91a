// SPDX-License-Identifier: Apache-2.0
#include "stripe_debts.h"

#include <algorithm>
#include <cmath>

#include "stripe_volumes.h"

namespace castor {
namespace {

constexpr std::int64_t kMostOwedBlocks = 16;

}  // namespace

StripeDebts::StripeDebts(std::size_t n_volumes, std::uint64_t block_bytes)
    : most_bytes_(static_cast<std::int64_t>(block_bytes) * kMostOwedBlocks), owed_bytes_(n_volumes) {}

void StripeDebts::add_to(std::span<double> wanted_bytes) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t v = 0; v < owed_bytes_.size(); ++v) wanted_bytes[v] += static_cast<double>(owed_bytes_[v]);
}

void StripeDebts::change(std::span<const double> shares, const Placement& placement, std::int64_t sign) {
  const auto room_bytes = static_cast<double>(placed_bytes(placement));
  const std::lock_guard lock(mutex_);
  for (std::size_t v = 0; v < owed_bytes_.size(); ++v) {
    const auto due = static_cast<std::int64_t>(std::llround(shares[v] * room_bytes));
    const auto got = static_cast<std::int64_t>(placement.extents[v].n_bytes);
    owed_bytes_[v] = std::clamp(owed_bytes_[v] + sign * (due - got), -most_bytes_, most_bytes_);
  }
}

}  // namespace castor

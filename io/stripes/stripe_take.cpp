// SPDX-License-Identifier: Apache-2.0
#include "stripe_take.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <castor/memory/bytes.h>

namespace castor {

StripeTake::StripeTake(const Parts& parts, std::uint64_t key, std::uint64_t n_bytes)
    : parts_(parts),
      key_(key),
      n_bytes_(n_bytes),
      most_units_(parts.volumes.size(), std::numeric_limits<std::uint64_t>::max()),
      why_(parts.volumes.size()),
      shares_(parts.volumes.size()),
      counts_(parts.volumes.size()),
      is_new_(parts.volumes.size()) {}

Result<Placement> StripeTake::run() {
  CASTOR_TRY(check_size());
  const auto room_bytes = value_room_bytes(n_bytes_);
  CASTOR_TRY(parts_.account.reserve(key_, room_bytes));
  for (; plan(); undo()) {
    if (!allocate() || !back()) continue;
    parts_.account.settle(room_bytes);
    return std::move(placement_);
  }
  parts_.account.cancel(room_bytes);
  return no_room();
}

Result<void> StripeTake::check_size() const {
  const auto block_bytes = parts_.block_bytes;
  const auto most_bytes = std::min(kMostUnits, ExtentAllocator::kUnlimited / block_bytes) * block_bytes;
  if (n_bytes_ <= most_bytes) return {};
  return Error{ErrorKind::does_not_fit, "key " + std::to_string(key_) + " needs " + format_bytes(n_bytes_) +
                                            ", a value in blocks of " + format_bytes(block_bytes) + " has at most " +
                                            format_bytes(most_bytes) + "; take larger blocks or smaller values"};
}

/// Gives each volume its share of this value and its debt, in units. False where nothing is left to try.
bool StripeTake::plan() {
  parts_.rates.shares(parts_.clock(), shares_);
  const auto room_bytes = static_cast<double>(value_room_bytes(n_bytes_));
  std::vector<double> wanted_bytes(shares_);
  for (double& wanted : wanted_bytes) wanted *= room_bytes;
  parts_.debts.add_to(wanted_bytes);
  if (!share_units(n_value_units(n_bytes_, parts_.block_bytes), wanted_bytes, most_units_, counts_)) return false;
  placement_ = plan_extents(counts_, n_bytes_, parts_.block_bytes);
  return true;
}

bool StripeTake::allocate() {
  counted_ = false;
  if (auto refusal = parts_.volumes.allocate(key_, placement_, is_new_)) return refused(std::move(*refusal));
  parts_.debts.count(shares_, placement_);
  return counted_ = true;
}

/// Has the file systems set the room aside.
bool StripeTake::back() {
  const auto n_volumes = parts_.volumes.size();
  for (std::size_t v = 0; v < n_volumes; ++v) {
    const Extent& extent = placement_.extents[v];
    if (extent.n_bytes == 0) continue;
    const auto most_ahead_bytes = parts_.account.most_ahead_bytes(n_volumes);
    if (auto refusal = parts_.volumes.back(v, {extent, is_new_[v]}, most_ahead_bytes))
      return refused(std::move(*refusal));
  }
  return true;
}

void StripeTake::undo() {
  if (counted_) parts_.debts.take_back(shares_, placement_);
  parts_.volumes.give_back(key_, placement_);
}

/// Bounds the next try on the volume by the bytes that are free there. Where that bound has proved too large before,
/// the next try is a quarter smaller: the free bytes are an estimate. Returns false.
bool StripeTake::refused(StripeRefusal refusal) {
  const auto n_units = counts_[refusal.volume];
  auto& why = why_[refusal.volume];
  const auto fewer = why ? n_units - std::max<std::uint64_t>(n_units / 4, 1) : n_units - 1;
  most_units_[refusal.volume] = std::min(fewer, refusal.free_bytes / parts_.block_bytes);
  why = std::move(refusal.why);
  return false;
}

Error StripeTake::no_room() const {
  std::string reasons;
  auto kind = ErrorKind::does_not_fit;
  for (const auto& why : why_) {
    if (!why) continue;
    reasons += (reasons.empty() ? "" : "; ") + why->message;
    if (why->kind != ErrorKind::does_not_fit) kind = ErrorKind::io;
  }
  return {kind,
          "key " + std::to_string(key_) + " needs " + format_bytes(value_room_bytes(n_bytes_)) +
              " and no folder has room for it: " + reasons,
          "nvme"};
}

}  // namespace castor

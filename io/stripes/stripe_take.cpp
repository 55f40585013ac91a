// SPDX-License-Identifier: Apache-2.0
// StripeSet::take: how a value finds room on the volumes.
#include <castor/io/stripe_set.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <castor/io/folder.h>

#include "stripe_volume.h"

namespace castor {
namespace {

constexpr std::int64_t kMostOwedBlocks = 16;  // what a volume that was full may catch up on

}  // namespace

/// What the volumes could not do for one value: at most so many units each, and why no more.
struct StripeSet::Refusals {
  explicit Refusals(std::size_t n_volumes)
      : most_units(n_volumes, std::numeric_limits<std::uint64_t>::max()), why(n_volumes) {}

  /// The volume had no room for `n_units`, but about so many bytes are free. Where that has proved too much before, the
  /// next try is a quarter smaller: what is free is an estimate.
  void add(std::size_t volume, std::uint64_t n_units, std::uint64_t free_units, Error error) {
    const auto fewer = why[volume] ? n_units - std::max<std::uint64_t>(n_units / 4, 1) : n_units - 1;
    most_units[volume] = std::min(fewer, free_units);
    why[volume] = std::move(error);
  }

  std::vector<std::uint64_t> most_units;
  std::vector<std::optional<Error>> why;
};

/// One try to place a value.
struct StripeSet::Attempt {
  Attempt(std::uint64_t length_bytes, std::size_t n_volumes)
      : n_bytes(length_bytes), counts(n_volumes), is_new(n_volumes) {}

  std::uint64_t n_bytes;
  std::vector<double> shares;
  std::vector<std::uint64_t> counts;  ///< units
  Placement placement;
  std::vector<bool> is_new;
  bool paid = false;
};

Result<void> StripeSet::check_size(std::uint64_t key, std::uint64_t n_bytes) const {
  const auto most_bytes = std::min(kMostUnits, ExtentAllocator::kUnlimited / block_bytes_) * block_bytes_;
  if (n_bytes <= most_bytes) return {};
  return Error{ErrorKind::does_not_fit, "key " + std::to_string(key) + " needs " + format_bytes(n_bytes) +
                                            ", a value in blocks of " + format_bytes(block_bytes_) + " has at most " +
                                            format_bytes(most_bytes) + "; take larger blocks or smaller values"};
}

/// Room ahead of the extents is nobody's yet, but the drive has it no more: all volumes together stay in the budget.
std::uint64_t StripeSet::most_ahead_bytes() const {
  return budget_ ? budget_->free_bytes() / n_volumes() : std::numeric_limits<std::uint64_t>::max();
}

/// How many units each volume gets: its share of this value and what it is owed. False where nothing is left to try.
bool StripeSet::plan(Attempt& attempt, const Refusals& refusals) const {
  attempt.shares = shares();
  const auto room_bytes = static_cast<double>(value_room_bytes(attempt.n_bytes));
  std::vector<double> wanted(n_volumes());
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t v = 0; v < n_volumes(); ++v)
      wanted[v] = attempt.shares[v] * room_bytes + static_cast<double>(owed_bytes_[v]);
  }
  if (!share_units(n_value_units(attempt.n_bytes, block_bytes_), wanted, refusals.most_units, attempt.counts))
    return false;
  attempt.placement = plan_extents(attempt.counts, attempt.n_bytes, block_bytes_);
  return true;
}

/// Finds an extent on each volume. Where one has none, those behind it are left without.
bool StripeSet::allocate(std::uint64_t key, Attempt& attempt, Refusals& refusals) {
  const std::lock_guard lock(mutex_);
  auto& extents = attempt.placement.extents;
  for (std::size_t v = 0; v < n_volumes(); ++v) {
    if (extents[v].n_bytes == 0) continue;
    const auto taken = volumes_[v]->allocate(key, extents[v].n_bytes);
    if (!taken.ok()) {
      Error why{taken.error().kind, volumes_[v]->file().path() + ": " + taken.error().message};
      refusals.add(v, attempt.counts[v], volumes_[v]->largest_free_bytes() / block_bytes_, std::move(why));
      for (; v < n_volumes(); ++v) extents[v] = {};
      return false;
    }
    extents[v] = taken->extent;
    attempt.is_new[v] = taken->is_new;
  }
  pay(attempt, 1);
  return attempt.paid = true;
}

/// Has the file systems set the room aside.
bool StripeSet::back(const Attempt& attempt, Refusals& refusals) {
  const auto& extents = attempt.placement.extents;
  for (std::size_t v = 0; v < n_volumes(); ++v) {
    if (extents[v].n_bytes == 0) continue;
    auto backed = volumes_[v]->back({extents[v], attempt.is_new[v]}, most_ahead_bytes());
    if (backed.ok()) continue;
    const auto free = available_bytes(volumes_[v]->file().folder());
    refusals.add(v, attempt.counts[v], free.ok() ? *free / block_bytes_ : 0, backed.error());
    return false;
  }
  return true;
}

/// Counts what each volume should have got of the value and what it got; with `sign` −1 takes that back.
void StripeSet::pay(const Attempt& attempt, std::int64_t sign) {
  const auto room_bytes = static_cast<double>(value_room_bytes(attempt.n_bytes));
  const auto most = static_cast<std::int64_t>(block_bytes_) * kMostOwedBlocks;
  for (std::size_t v = 0; v < n_volumes(); ++v) {
    const auto due = static_cast<std::int64_t>(std::llround(attempt.shares[v] * room_bytes));
    const auto got = static_cast<std::int64_t>(attempt.placement.extents[v].n_bytes);
    owed_bytes_[v] = std::clamp(owed_bytes_[v] + sign * (due - got), -most, most);
  }
}

void StripeSet::undo(std::uint64_t key, const Attempt& attempt) {
  punch(attempt.placement);
  const std::lock_guard lock(mutex_);
  if (attempt.paid) pay(attempt, -1);
  free(key, attempt.placement);
}

Error StripeSet::no_room(std::uint64_t key, std::uint64_t n_bytes, const Refusals& refusals) const {
  std::string reasons;
  auto kind = ErrorKind::does_not_fit;
  for (const auto& why : refusals.why) {
    if (!why) continue;
    reasons += (reasons.empty() ? "" : "; ") + why->message;
    if (why->kind != ErrorKind::does_not_fit) kind = ErrorKind::io;
  }
  return {kind, "key " + std::to_string(key) + " needs " + format_bytes(n_bytes) +
                    " and no folder has room for it: " + reasons};
}

Result<Placement> StripeSet::take(std::uint64_t key, std::uint64_t n_bytes) {
  CASTOR_TRY(check_size(key, n_bytes));
  const auto room_bytes = value_room_bytes(n_bytes);
  CASTOR_TRY(count_in(key, room_bytes));
  Refusals refusals(n_volumes());
  for (Attempt attempt(n_bytes, n_volumes()); plan(attempt, refusals); undo(key, attempt)) {
    attempt.paid = false;
    if (!allocate(key, attempt, refusals) || !back(attempt, refusals)) continue;
    const std::lock_guard lock(mutex_);
    add(room_bytes);
    return std::move(attempt.placement);
  }
  count_out(room_bytes);
  return no_room(key, room_bytes, refusals);
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include <castor/memory/budget.h>
#include <castor/memory/result.h>

namespace castor {

/// The bytes that a set holds, against its budget: reserved before room is looked for, allocated once a placement has
/// all of it.
///
/// Invariant: the budget has reserved the allocated bytes and those of the placements under way. The destructor
/// releases the allocated ones.
/// Threads: any.
class StripeAccount {
 public:
  /// `budget` is borrowed; null = no limit.
  explicit StripeAccount(Budget* budget) : budget_(budget) {}
  ~StripeAccount();
  StripeAccount(const StripeAccount&) = delete;
  StripeAccount& operator=(const StripeAccount&) = delete;

  /// Reserves `n_bytes` for a placement of `key`. Errors: does_not_fit, with the figures; then nothing has changed.
  Result<void> reserve(std::uint64_t key, std::uint64_t n_bytes);
  /// Ends a reservation: `settle` where the placement has its bytes, `cancel` where it failed.
  void settle(std::uint64_t n_bytes);
  void cancel(std::uint64_t n_bytes);
  /// Releases bytes that were settled. Requires: no extent holds them any more.
  void give_back(std::uint64_t n_bytes);

  /// How far each of `n_volumes` may set room aside ahead of its extents. Such room belongs to no key, but the drive
  /// lacks it: all volumes together stay within the budget.
  std::uint64_t most_ahead_bytes(std::size_t n_volumes) const;
  std::uint64_t allocated_bytes() const;
  std::uint64_t peak_allocated_bytes() const;

 private:
  Budget* const budget_;
  mutable std::mutex mutex_;
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t peak_allocated_bytes_ = 0;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include <castor/memory/tier.h>

namespace castor {

/// The bytes that one tier may hold, and the bytes that it holds now.
///
/// Threads: every member may be called from any thread.
class Budget {
 public:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  explicit Budget(Tier tier, std::uint64_t limit_bytes = kUnlimited) : tier_(tier), limit_bytes_(limit_bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  Tier tier() const { return tier_; }
  std::uint64_t limit_bytes() const { return limit_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  /// The largest `used_bytes` ever seen.
  std::uint64_t peak_bytes() const { return peak_bytes_.load(std::memory_order_relaxed); }
  /// Bytes that can still be reserved; 0 where a lowered limit is below the bytes in use.
  std::uint64_t free_bytes() const;

  /// Takes `n_bytes` if they fit under the limit; false, and nothing taken, if they do not.
  [[nodiscard]] bool try_reserve(std::uint64_t n_bytes);
  /// Gives back `n_bytes` that try_reserve took. Requires: that many are reserved (ContractViolation, and then nothing
  /// has changed).
  void release(std::uint64_t n_bytes);
  /// Changes the limit. Bytes already reserved stay, also above a lower limit; only new reservations see it.
  void set_limit(std::uint64_t limit_bytes) { limit_bytes_.store(limit_bytes, std::memory_order_relaxed); }

  /// The limit with which no reservation fails, as far as the one who plans them knows (0: it does not). Errors advise
  /// it, so that nobody has to raise a limit in steps.
  void set_enough_bytes(std::uint64_t n_bytes) { enough_bytes_.store(n_bytes, std::memory_order_relaxed); }
  /// What the user has stated for the tier is that many bytes more than the limit: they are others' (a model's
  /// activations). Errors speak of what was stated.
  void set_others_bytes(std::uint64_t n_bytes) { others_bytes_.store(n_bytes, std::memory_order_relaxed); }
  std::uint64_t stated_bytes() const;
  /// What should be stated for `n_bytes` more.
  std::uint64_t stated_for(std::uint64_t n_bytes) const;

 private:
  const Tier tier_;
  std::atomic<std::uint64_t> limit_bytes_;
  std::atomic<std::uint64_t> used_bytes_{0};
  std::atomic<std::uint64_t> peak_bytes_{0};
  std::atomic<std::uint64_t> enough_bytes_{0}, others_bytes_{0};
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/budget.h>

#include <algorithm>
#include <string>

#include <castor/memory/result.h>

namespace castor {

std::uint64_t Budget::free_bytes() const {
  const auto limit = limit_bytes();
  const auto used = used_bytes();
  return used < limit ? limit - used : 0;
}

std::uint64_t Budget::stated_bytes() const {
  const auto limit = limit_bytes();
  return limit == kUnlimited ? limit : limit + others_bytes_.load(std::memory_order_relaxed);
}

std::uint64_t Budget::stated_for(std::uint64_t n_bytes) const {
  const auto enough = std::max(enough_bytes_.load(std::memory_order_relaxed), used_bytes() + n_bytes);
  return enough + others_bytes_.load(std::memory_order_relaxed);
}

bool Budget::try_reserve(std::uint64_t n_bytes) {
  auto used = used_bytes_.load(std::memory_order_relaxed);
  do {
    const auto limit = limit_bytes();
    if (used > limit || n_bytes > limit - used) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + n_bytes, std::memory_order_relaxed));
  const auto now = used + n_bytes;
  auto peak = peak_bytes_.load(std::memory_order_relaxed);
  while (now > peak && !peak_bytes_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return true;
}

void Budget::release(std::uint64_t n_bytes) {
  auto used = used_bytes_.load(std::memory_order_relaxed);
  do {
    if (n_bytes > used)
      throw ContractViolation(std::string(name(tier_)) + " tier: " + std::to_string(n_bytes) + " bytes given back, " +
                              std::to_string(used) + " had been reserved");
  } while (!used_bytes_.compare_exchange_weak(used, used - n_bytes, std::memory_order_relaxed));
}

}  // namespace castor

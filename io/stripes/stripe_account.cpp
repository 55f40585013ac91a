// SPDX-License-Identifier: Apache-2.0
#include "stripe_account.h"

#include <algorithm>
#include <limits>
#include <string>

#include <castor/memory/bytes.h>
#include <castor/memory/shortage.h>

namespace castor {

StripeAccount::~StripeAccount() { cancel(allocated_bytes_); }

Result<void> StripeAccount::reserve(std::uint64_t key, std::uint64_t n_bytes) {
  if (!budget_ || budget_->try_reserve(n_bytes)) return {};
  const std::uint64_t free_bytes = budget_->free_bytes();
  const std::uint64_t wanted_bytes = budget_->stated_for(n_bytes);
  return does_not_fit({budget_->tier(), wanted_bytes, budget_->limit_bytes()},
                      std::string(name(budget_->tier())) + " tier: key " + std::to_string(key) + " needs " +
                          format_bytes(n_bytes) + ", " + format_bytes(free_bytes) + " are free under the " +
                          format_bytes(budget_->limit_bytes()) + " budget; raise it to " +
                          format_bytes_up(wanted_bytes) + " or more");
}

void StripeAccount::settle(std::uint64_t n_bytes) {
  const std::lock_guard lock(mutex_);
  allocated_bytes_ += n_bytes;
  peak_allocated_bytes_ = std::max(peak_allocated_bytes_, allocated_bytes_);
}

void StripeAccount::cancel(std::uint64_t n_bytes) {
  if (budget_) budget_->release(n_bytes);
}

void StripeAccount::give_back(std::uint64_t n_bytes) {
  const std::lock_guard lock(mutex_);
  allocated_bytes_ -= n_bytes;
  cancel(n_bytes);
}

std::uint64_t StripeAccount::most_ahead_bytes(std::size_t n_volumes) const {
  return budget_ ? budget_->free_bytes() / n_volumes : std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t StripeAccount::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocated_bytes_;
}

std::uint64_t StripeAccount::peak_allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_allocated_bytes_;
}

}  // namespace castor

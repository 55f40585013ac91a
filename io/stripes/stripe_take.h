// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <castor/memory/clock.h>
#include <castor/memory/result.h>

#include "stripe_account.h"
#include "stripe_debts.h"
#include "stripe_layout.h"
#include "stripe_rates.h"
#include "stripe_volumes.h"

namespace castor {

/// Finds room for one value: splits it by the share and debt of each volume, and tries again with fewer units on a
/// volume that refused, until every volume has its part or nothing is left to try.
///
/// Invariant: between two tries the value holds no extent and has changed no debt.
class StripeTake {
 public:
  struct Parts {
    StripeVolumes& volumes;
    StripeAccount& account;
    StripeDebts& debts;
    const StripeRates& rates;
    Clock clock;
    std::uint64_t block_bytes;
  };
  StripeTake(const Parts& parts, std::uint64_t key, std::uint64_t n_bytes);

  /// Once per object. Errors: those of StripeSet::take; then nothing has changed.
  Result<Placement> run();

 private:
  Result<void> check_size() const;
  bool plan();
  bool allocate();
  bool back();
  void undo();
  bool refused(StripeRefusal refusal);
  Error no_room() const;

  const Parts parts_;
  const std::uint64_t key_;
  const std::uint64_t n_bytes_;

  // Per volume, from one try to the next:
  std::vector<std::uint64_t> most_units_;
  std::vector<std::optional<Error>> why_;  ///< why there may be no more units

  // The try under way:
  std::vector<double> shares_;
  std::vector<std::uint64_t> counts_;  ///< units
  Placement placement_;
  std::vector<bool> is_new_;
  bool counted_ = false;  ///< the debts know of it
};

}  // namespace castor

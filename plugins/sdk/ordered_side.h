// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call_order.h"
#include "other_side.h"

namespace castor::sdk {

/// A table of a strategy, whose functions are called in order alone: a call out of order is refused before it reaches
/// the strategy.
template <typename Table>
class OrderedSide {
 public:
  /// Borrowed. `table` may be null: no function is there.
  OrderedSide(const Table* table, void* self, const ErrorSource& source, CallOrder& order)
      : other_(table, self, source), order_(order) {}

  bool is_there() const { return other_.is_there(); }

  template <typename Function, typename... A>
  Result<void> call(Function Table::*function, const CallNeed& need, const char* name, A&... args) const {
    CASTOR_ASSIGN(const auto turn, order_.begin_turn(name));
    CASTOR_TRY(admit(function, need, name));
    auto outcome = other_.call(function, need, name, args...);
    if (outcome.ok()) order_.made(need.effect);
    return outcome;
  }

  template <typename T, typename Function, typename... A>
  Result<T> get(Function Table::*function, const CallNeed& need, const char* name, A&... args) const {
    CASTOR_ASSIGN(const auto turn, order_.begin_turn(name));
    CASTOR_TRY(admit(function, need, name));
    auto outcome = other_.template get<T>(function, need, name, args...);
    if (outcome.ok()) order_.made(need.effect);
    return outcome;
  }

 private:
  /// A function that the strategy lacks is refused for that reason in any state.
  template <typename Function>
  Result<void> admit(Function Table::*function, const CallNeed& need, const char* name) const {
    const bool refused_anyway = need.kind != CallNeed::Kind::optional && !other_.has(function);
    return refused_anyway ? Result<void>() : order_.admit(need, name);
  }

  const OtherSide<Table> other_;
  CallOrder& order_;
};

}  // namespace castor::sdk

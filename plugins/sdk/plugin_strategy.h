// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/strategy.h>

#include "caller.h"

namespace castor::sdk {

/// The tables of a plugin's strategy as a Strategy: every function that is in order calls its namesake in the plugin.
class PluginStrategy : public Strategy {
 public:
  PluginStrategy(const castor_strategy_v2& table, const ErrorSource& source)
      : other_(table.steps, table.self, source, order_),
        values_(table.values, table.self, source, order_),
        commits_(table.commits, table.self, source, order_),
        activations_(table.activations, table.self, source, order_) {}

  ValueCalls& values() override { return values_; }
  CommitCalls& commits() override { return commits_; }
  ActivationCalls& activations() override { return activations_.is_there() ? activations_ : Strategy::activations(); }

  using Table = castor_steps_v2;
#include "as_callers.inc"
#include <castor/plugins/abi/steps.inc>

 protected:
  const CallOrder& order() const { return order_; }

 private:
  class Values final : public Caller<ValueCalls, castor_values_v2, OrderedSide> {
   public:
    using Caller::Caller;
#include "as_callers.inc"
#include <castor/plugins/abi/values.inc>
  };

  class Commits final : public Caller<CommitCalls, castor_commits_v2, OrderedSide> {
   public:
    using Caller::Caller;
#include "as_callers.inc"
#include <castor/plugins/abi/commits.inc>
  };

  class Activations final : public Caller<ActivationCalls, castor_activations_v2, OrderedSide> {
   public:
    using Caller::Caller;
#include "as_callers.inc"
#include <castor/plugins/abi/activations.inc>
  };

  CallOrder order_;
  const OrderedSide<Table> other_;
  Values values_;
  Commits commits_;
  Activations activations_;
};

}  // namespace castor::sdk

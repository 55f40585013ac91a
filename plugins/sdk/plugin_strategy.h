// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/strategy.h>

#include "other_side.h"

namespace castor::sdk {

/// The tables of a plugin's strategy as a Strategy: every function calls its namesake in the plugin.
class PluginStrategy : public Strategy {
 public:
  PluginStrategy(const castor_strategy_v2& table, const ErrorSource& source)
      : other_(table.steps, table.self, source),
        values_(table.values, table.self, source),
        commits_(table.commits, table.self, source),
        activations_(table.activations, table.self, source),
        keeps_(table.activations != nullptr) {}

  ValueCalls& values() override { return values_; }
  CommitCalls& commits() override { return commits_; }
  ActivationCalls& activations() override { return keeps_ ? activations_ : Strategy::activations(); }

  using Table = castor_steps_v2;
#include "as_callers.inc"
#include <castor/plugins/abi/steps.inc>

 private:
  class Values final : public ValueCalls {
   public:
    using Table = castor_values_v2;
    Values(const Table* table, void* self, const ErrorSource& source) : other_(table, self, source) {}
#include "as_callers.inc"
#include <castor/plugins/abi/values.inc>

   private:
    const OtherSide<Table> other_;
  };

  class Commits final : public CommitCalls {
   public:
    using Table = castor_commits_v2;
    Commits(const Table* table, void* self, const ErrorSource& source) : other_(table, self, source) {}
#include "as_callers.inc"
#include <castor/plugins/abi/commits.inc>

   private:
    const OtherSide<Table> other_;
  };

  class Activations final : public ActivationCalls {
   public:
    using Table = castor_activations_v2;
    Activations(const Table* table, void* self, const ErrorSource& source) : other_(table, self, source) {}
#include "as_callers.inc"
#include <castor/plugins/abi/activations.inc>

   private:
    const OtherSide<Table> other_;
  };

  const OtherSide<Table> other_;
  Values values_;
  Commits commits_;
  Activations activations_;
  const bool keeps_;
};

}  // namespace castor::sdk

// SPDX-License-Identifier: Apache-2.0
#include "strategy_check.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace castor::sdk {
namespace {

struct FunctionNeed {
  const char* name;
  CallNeed need;
  bool there;
};

std::string defect_of(std::span<const FunctionNeed> functions) {
  const auto there = [functions](std::string_view name) {
    return std::ranges::any_of(functions, [name](const FunctionNeed& f) { return f.there && f.name == name; });
  };
  for (const FunctionNeed& function : functions) {
    if (function.there) continue;
    if (function.need.kind == CallNeed::Kind::required)
      return std::string("has a strategy without the required function ") + function.name;
    if (function.need.kind == CallNeed::Kind::with && there(function.need.text))
      return std::string("has a strategy with ") + function.need.text + " and without " + function.name;
  }
  return {};
}

std::string defect_of_steps(const castor_strategy_v2& strategy, const ErrorSource& source) {
  using Table = castor_steps_v2;
  const OtherSide<Table> table(strategy.steps, strategy.self, source);
  const FunctionNeed functions[] = {
#include "as_needs.inc"
#include <castor/plugins/abi/steps.inc>
  };
  return defect_of(functions);
}

std::string defect_of_values(const castor_strategy_v2& strategy, const ErrorSource& source) {
  using Table = castor_values_v2;
  const OtherSide<Table> table(strategy.values, strategy.self, source);
  const FunctionNeed functions[] = {
#include "as_needs.inc"
#include <castor/plugins/abi/values.inc>
  };
  return defect_of(functions);
}

std::string defect_of_commits(const castor_strategy_v2& strategy, const ErrorSource& source) {
  if (strategy.commits == nullptr) return {};
  using Table = castor_commits_v2;
  const OtherSide<Table> table(strategy.commits, strategy.self, source);
  const FunctionNeed functions[] = {
#include "as_needs.inc"
#include <castor/plugins/abi/commits.inc>
  };
  return defect_of(functions);
}

std::string defect_of_activations(const castor_strategy_v2& strategy, const ErrorSource& source) {
  if (strategy.activations == nullptr) return {};
  using Table = castor_activations_v2;
  const OtherSide<Table> table(strategy.activations, strategy.self, source);
  const FunctionNeed functions[] = {
#include "as_needs.inc"
#include <castor/plugins/abi/activations.inc>
  };
  return defect_of(functions);
}

}  // namespace

bool can_be_destroyed(const castor_strategy_v2& table) {
  return table.struct_size >= sizeof(castor_strategy_v2) && table.destroy != nullptr;
}

std::string defect_of(const castor_strategy_v2& table, const ErrorSource& source) {
  if (table.struct_size < sizeof(castor_strategy_v2))
    return "created a strategy of " + std::to_string(table.struct_size) + " bytes where version 2.0 has " +
           std::to_string(sizeof(castor_strategy_v2));
  if (table.destroy == nullptr) return "has a strategy without the required function destroy";
  for (const auto check : {defect_of_steps, defect_of_values, defect_of_commits, defect_of_activations})
    if (std::string defect = check(table, source); !defect.empty()) return defect;
  return {};
}

}  // namespace castor::sdk

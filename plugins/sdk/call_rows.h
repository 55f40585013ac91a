// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <castor/plugins/call_need.h>

namespace castor::sdk {

/// A function of a list, with its rules.
struct CallRow {
  std::string_view name;
  CallNeed need;
};

inline constexpr CallRow kStepRows[] = {
#include "as_rows.inc"
#include <castor/plugins/abi/steps.inc>
};
inline constexpr CallRow kValueRows[] = {
#include "as_rows.inc"
#include <castor/plugins/abi/values.inc>
};
inline constexpr CallRow kCommitRows[] = {
#include "as_rows.inc"
#include <castor/plugins/abi/commits.inc>
};
inline constexpr CallRow kActivationRows[] = {
#include "as_rows.inc"
#include <castor/plugins/abi/activations.inc>
};

/// The rules of a function of steps.inc. Does not compile for a name that the list does not have.
consteval CallNeed need_of_step_call(std::string_view name) {
  for (const CallRow& row : kStepRows)
    if (row.name == name) return row.need;
  throw "no such function";
}

}  // namespace castor::sdk

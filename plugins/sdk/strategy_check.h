// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "other_side.h"

namespace castor::sdk {

/// True where `table` reaches as far as destroy, and has it.
bool can_be_destroyed(const castor_strategy_v2& table);

/// The first function or table that a plugin's strategy must have and lacks: "has a strategy without …"; empty where
/// there is none.
std::string defect_of(const castor_strategy_v2& table, const ErrorSource& source);

}  // namespace castor::sdk

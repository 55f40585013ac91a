// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <castor/memprof/summary.h>

namespace castor::memprof {

/// The summary as `castor memprof --json` prints it.
nlohmann::json to_json(const Trace& trace, const Summary& summary);

}  // namespace castor::memprof

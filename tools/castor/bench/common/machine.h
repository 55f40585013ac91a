// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace castor::bench {

/// What figures of this machine must be read beside: processor, cores, memory, kernel.
nlohmann::json machine_json();

}  // namespace castor::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace castor::bench {

/// The facts of this machine that every figure needs beside it: processor, cores, memory, kernel.
nlohmann::json machine_json();

}  // namespace castor::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "engine_rooms.h"

namespace castor {

/// Writes the trace file that docs/trace.md describes. Errors: io.
Result<void> write_trace(const std::filesystem::path& path, const EngineRooms& rooms);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/abi.h>

#include "engine_rooms.h"

namespace castor {

/// The counters of a run so far, as Strategy::stats returns them. On a GPU the device's figures are those of
/// torch's allocator, chunks included.
castor_stats stats_of(const EngineRooms& rooms);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>

#include <castor/io/io_tuning.h>

#include "options.h"

namespace castor::bench {

/// Finds out with short bursts of reads and writes which block size, depth and (where there is no io_uring) number of
/// threads suit the drive under `folder`, one after the other, and remembers them for it (castor/io/io_tuning.h).
///
/// Takes about 2 s and 256 MiB of room, less where less is free.
/// Errors: io, where the folder or the engine cannot be used; does_not_fit, where there is no room; usage, with the null
/// engine; interrupted, once `stopped` says so.
Result<IoTuning> tune_folder(const std::string& folder, const IoBenchOptions& options,
                             const std::function<bool()>& stopped);

/// What was found, for people and as entries of `results`.
std::string tuned_line(const std::string& folder, const IoTuning& tuning);
nlohmann::json tuned_json(const std::string& folder, const IoTuning& tuning);

}  // namespace castor::bench

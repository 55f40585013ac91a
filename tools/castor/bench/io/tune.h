// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>

#include <castor/io/io_tuning.h>

#include "options.h"

namespace castor::bench {

/// Finds the block size, the depth and (without io_uring) the number of threads that suit the drive under `folder`, one
/// after the other, by short bursts of reads and writes, and saves them for that drive (castor/io/io_tuning.h).
///
/// Takes about 2 s and 256 MiB of free space, less if less is free.
/// Errors: io if the folder or the engine cannot be used; does_not_fit if there is too little space; usage with the
/// null engine; interrupted once `stopped` returns true.
Result<IoTuning> tune_folder(const std::string& folder, const IoBenchOptions& options,
                             const std::function<bool()>& stopped);

/// The tuning as a line of text and as entries of `results`.
std::string tuned_line(const std::string& folder, const IoTuning& tuning);
nlohmann::json tuned_json(const std::string& folder, const IoTuning& tuning);

}  // namespace castor::bench

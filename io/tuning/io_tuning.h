// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include <castor/io/io_tuning.h>

namespace castor {

/// The identity of the drive under `folder`, in one word: `8:1-5f3a09c41b-500107862016` (device number, file system's
/// id, bytes). Errors: io, where `folder` cannot be examined.
Result<std::string> drive_id(const std::string& folder);

/// Drive id → tuning.
using TuningTable = std::map<std::string, IoTuning>;

/// The text of the file. `parse_tunings` reads exactly this format.
std::string format_tunings(const TuningTable& table);

/// Errors: failed, with the first wrong line; then no line of the file is used.
Result<TuningTable> parse_tunings(const std::string& text);

/// The largest depth: requests that a drive has at a time.
inline constexpr unsigned kMostDepth = 1024;

/// Whether each setting is in the range that a store takes.
bool is_sound(const IoTuning& tuning);

}  // namespace castor

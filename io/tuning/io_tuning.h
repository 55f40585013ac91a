// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include <castor/io/io_tuning.h>

namespace castor {

/// What a drive is recognised by, in one word: `8:1-5f3a09c41b-500107862016` (device number, file system's id, bytes).
/// Errors: io, where `folder` cannot be looked at.
Result<std::string> drive_id(const std::string& folder);

/// Drive id → tuning.
using TuningTable = std::map<std::string, IoTuning>;

/// The text of the file. `parse_tunings` reads exactly what this writes.
std::string format_tunings(const TuningTable& table);

/// Errors: failed, saying which line is wrong; then the whole file is of no use.
Result<TuningTable> parse_tunings(const std::string& text);

/// Requests that a store keeps on a drive.
inline constexpr unsigned kMostDepth = 1024;

/// Whether each value is one that Castor can work with.
bool is_sound(const IoTuning& tuning);

}  // namespace castor

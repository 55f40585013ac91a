// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <castor/memory/result.h>

namespace castor {

/// With which sizes a drive is fast, found by measuring (`castor bench io --tune`).
struct IoTuning {
  std::uint64_t block_bytes = 0;  ///< of one request
  unsigned depth = 0;             ///< requests in flight
  unsigned n_threads = 0;         ///< of the threads engine
  std::uint64_t read_bytes_per_s = 0;
  std::uint64_t write_bytes_per_s = 0;
};

/// What was remembered of a drive.
struct LoadedTuning {
  std::optional<IoTuning> tuning;  ///< empty where this drive was never tuned, or the file is of no use
  std::string warning;             ///< one sentence where there is a file that cannot be used; else empty
};

/// Where tunings are kept: `$XDG_CACHE_HOME/castor/io-tuning`, else `~/.cache/castor/io-tuning`; empty where neither
/// variable is set.
std::filesystem::path io_tuning_path();

/// What was remembered for the drive under `folder`. That nothing was, or that the file is damaged or of another
/// version, is no error: whoever asks goes on with values that suit most drives.
///
/// A drive is recognised by its device number, its file system's id and its size together, so that another drive that
/// comes under the same number does not inherit. Errors: io, where `folder` cannot be looked at.
Result<LoadedTuning> load_tuning(const std::string& folder);

/// Remembers `tuning` for the drive under `folder`, in place of what was there; the other drives' stay.
///
/// The file is text, a line per drive, and is replaced as a whole: who reads it at the same time sees the old or the new
/// one. Of two writers at the same time one is forgotten, or both are. A file of no use is started anew.
/// Errors: io, where the file cannot be written; usage, where a value is out of range.
Result<void> save_tuning(const std::string& folder, const IoTuning& tuning);

}  // namespace castor

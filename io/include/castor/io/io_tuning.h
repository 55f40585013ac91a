// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <castor/memory/result.h>

namespace castor {

/// The settings with which a drive is fastest, measured by `castor bench io --tune`.
struct IoTuning {
  std::uint64_t block_bytes = 0;  ///< of one request
  unsigned depth = 0;             ///< requests in flight
  unsigned n_threads = 0;         ///< of the threads engine
  std::uint64_t read_bytes_per_s = 0;
  std::uint64_t write_bytes_per_s = 0;
};

/// The stored tuning of a drive.
struct LoadedTuning {
  std::optional<IoTuning> tuning;  ///< empty where this drive was never tuned, or the file cannot be used
  std::string warning;             ///< one sentence where there is a file that cannot be used; else empty
};

/// The file of all tunings: `$XDG_CACHE_HOME/castor/io-tuning`, else `~/.cache/castor/io-tuning`; empty where neither
/// XDG_CACHE_HOME nor HOME is set.
std::filesystem::path io_tuning_path();

/// Reads the tuning stored for the drive under `folder`. A missing, damaged or outdated file is no error: the caller
/// continues with values that suit most drives.
///
/// A drive is recognised by its device number, its file system's id and its size together, so that another drive that
/// gets the same number does not inherit the tuning. Errors: io, where `folder` cannot be examined.
Result<LoadedTuning> load_tuning(const std::string& folder);

/// Stores `tuning` for the drive under `folder`, in place of an earlier one; those of other drives stay.
///
/// The file is text, a line per drive, and is replaced as a whole: a reader at the same time sees the old file or the
/// new one. Of two writers at the same time one loses its tuning, or both do. A file that cannot be used is started
/// anew.
/// Errors: io, where the file cannot be written; usage, where a value is out of range.
Result<void> save_tuning(const std::string& folder, const IoTuning& tuning);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <castor/memory/result.h>

#include "cases.h"
#include "bench/common/shares.h"

namespace castor::bench {

/// How fio accesses the drive; the ceiling tries the modes and keeps the best that works.
struct FioMode {
  std::string engine = "io_uring";
  bool registered_memory = true;  ///< --fixedbufs, which the memlock limit may forbid
  bool direct = true;             ///< as the store opens the file
  Pace pace = Pace::in_batches;
};

/// Files of equal size in which fio moves bytes, from their beginning on.
struct FioFiles {
  std::vector<std::string> paths;
  std::uint64_t file_bytes = 0;
};

/// The arguments for one run of `seconds`; 0 = each byte once.
///
/// fio does the store's work and nothing else: the same requests, depth and registered files; the bytes it writes do
/// not change from request to request (--scramble_buffers=0), it keeps no map of random blocks, and its memory begins
/// at a huge page. It neither creates, lays out nor truncates a file.
std::vector<std::string> fio_arguments(const FioMode& mode, const FioFiles& files, const IoCase& one, double seconds);

/// `NAME=VALUE` that makes the system's malloc, and so fio, ask for huge pages, as Castor does; the other settings in
/// `now` (the variable's value, or "") stay.
std::string fio_environment(const std::string& now);

/// The result of one run of fio.
struct FioReport {
  std::string version;  ///< `fio-3.33`
  Sample sample;
};

/// Reads the JSON on fio's stdout, which may follow lines of text.
/// Errors: failed if there is no JSON, or if it reports an error or no bytes.
Result<FioReport> parse_fio(const std::string& text);

}  // namespace castor::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <castor/memory/result.h>

#include "cases.h"
#include "bench/common/shares.h"

namespace castor::bench {

/// How fio reaches the drive; the best that works here is found by trying.
struct FioMode {
  std::string engine = "io_uring";
  bool registered_memory = true;  ///< --fixedbufs, which the memlock limit may forbid
  bool direct = true;             ///< as the store does it there
  Pace pace = Pace::in_batches;
};

/// Files of equal size that fio moves bytes in, from their beginning on.
struct FioFiles {
  std::vector<std::string> paths;
  std::uint64_t file_bytes = 0;
};

/// The arguments for one run of `seconds`; 0 = each byte once.
///
/// fio does what the store does and nothing else: same requests, same depth, registered files; the bytes it writes are
/// not changed from request to request (--scramble_buffers=0), no map of random blocks is kept, its memory begins at a
/// huge page. It neither creates, lays out nor truncates a file.
std::vector<std::string> fio_arguments(const FioMode& mode, const FioFiles& files, const IoCase& one, double seconds);

/// `NAME=VALUE` that makes the system's malloc, and so fio, ask for huge pages, as Castor's side does; what `now` (the
/// variable's value, or "") asks for otherwise stays.
std::string fio_environment(const std::string& now);

/// What a run of fio reports.
struct FioReport {
  std::string version;  ///< `fio-3.33`
  Sample sample;
};

/// Reads the JSON on fio's stdout, which may come after lines of text.
/// Errors: failed, where there is none, or where it reports an error or no byte.
Result<FioReport> parse_fio(const std::string& text);

}  // namespace castor::bench

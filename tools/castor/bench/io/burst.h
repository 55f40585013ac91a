// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/io/direct_file.h>
#include <castor/io/io_engine.h>

namespace castor::bench {

/// A short, dense series of requests through an engine.
struct BurstJob {
  IoOp op = IoOp::read;
  std::uint64_t block_bytes = 0;
  unsigned depth = 0;
  double seconds = 0;
};

/// Keeps `depth` requests in flight for `seconds`, sequentially over the first `file_bytes` of `file`; each has its own
/// block of `memory`. Returns bytes per second.
/// Requires: memory and file of depth × block_bytes (ContractViolation). Errors: io, that of the first request that
/// fails.
Result<double> run_burst(IoEngine& engine, const DirectFile& file, std::uint64_t file_bytes, BufferView memory,
                         const BurstJob& job);

}  // namespace castor::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/result.h>

namespace castor {

/// The transfers of a bare loop. Requires: all sizes above 0, `memory` of at least depth × block_bytes, file_bytes ≥
/// block_bytes (ContractViolation), and each file of at least `file_bytes` (not checked).
struct BareLoopJob {
  std::vector<int> files;        ///< open for the transfers of the job; used in turn
  std::uint64_t file_bytes = 0;  ///< of each file, from its beginning on
  std::uint64_t block_bytes = 0;
  unsigned depth = 1;         ///< requests in flight, from the first to the last moment
  unsigned read_percent = 0;  ///< 100 = only reads, 0 = only writes, 50 = each in turn
  bool random = false;        ///< offsets in no order instead of one after the other
  bool batches = true;        ///< one system call for all completions, instead of one for each
  double seconds = 1;
  BufferView memory;  ///< aligned as the files require; each request uses the part that has been idle longest
};

struct BareLoopOutcome {
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  double seconds = 0;              ///< from the first submission to the last completion
  bool registered_memory = false;  ///< the kernel pinned the pages once; false where the memlock limit is too small
};

/// Moves bytes with nothing but io_uring between caller and drive: no checksum, no thread, no queue. The result is the
/// ceiling that an engine is compared with where there is no better measure.
///
/// The loop runs on the calling thread until its time is over or `stopped` returns true (called once per batch of
/// completions). Every completion's result is checked.
/// Errors: io, where io_uring cannot be set up or a request does not move all its bytes.
Result<BareLoopOutcome> run_bare_loop(const BareLoopJob& job, const std::function<bool()>& stopped);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/io/direct_file.h>
#include <castor/memory/buffer.h>
#include <castor/memory/host_resource.h>
#include <castor/memory/result.h>

namespace castor {

/// Moves one range of any offset, length and address, made of transfers that direct I/O takes: whole sectors at a
/// suitable address go straight, everything else through a bounce page of 4096 bytes.
///
/// Invariant: the range up to `done_bytes_` has moved, and no byte beside it has changed.
/// Threads: the calling one, which blocks.
class RangeTransfer {
 public:
  /// `op`: read or write. `file` and `bytes` are borrowed.
  RangeTransfer(IoOp op, const DirectFile& file, std::uint64_t offset_bytes, BufferView bytes)
      : op_(op), file_(file), offset_bytes_(offset_bytes), bytes_(bytes), sector_bytes_(file.offset_align_bytes()) {}

  /// Once per object. Errors: io, with the bytes moved; a read beyond the end of the file is one.
  Result<void> run();

 private:
  struct Moved {
    std::uint64_t n_bytes = 0;
    int error_number = 0;
  };

  std::uint64_t here() const { return offset_bytes_ + done_bytes_; }
  std::uint64_t left_bytes() const { return bytes_.n_bytes - done_bytes_; }
  BufferView next(std::uint64_t n_bytes) const { return {bytes_.data + done_bytes_, n_bytes}; }
  std::uint64_t straight_bytes() const;
  std::uint64_t bounced_bytes() const;
  Moved move_all(IoOp op, std::uint64_t offset_bytes, BufferView bytes) const;
  Result<void> move_straight(std::uint64_t n_bytes);
  Result<void> move_bounced(std::uint64_t n_bytes);
  Result<void> read_bounced(BufferView window, std::uint64_t ahead_bytes, BufferView wanted);
  Result<void> write_bounced(BufferView window, std::uint64_t ahead_bytes, BufferView given);
  Result<void> fetch_sector(BufferView sector, std::uint64_t offset_bytes);
  Result<void> take_bounce_page();
  Result<void> stopped(const Moved& moved) const;

  const IoOp op_;
  const DirectFile& file_;
  const std::uint64_t offset_bytes_;
  const BufferView bytes_;
  const std::uint64_t sector_bytes_;
  std::uint64_t done_bytes_ = 0;
  HostResource memory_;
  Buffer page_;
};

}  // namespace castor

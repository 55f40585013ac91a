// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>

#include <castor/io/direct_file.h>
#include <castor/io/extent_allocator.h>

namespace castor {

/// The end up to which to set room aside in a file that has room up to `from_bytes` and needs it up to
/// `needed_end_bytes`.
///
/// A file grows in steps of an eighth of its size, at least 64 MiB and at most 1 GiB, so that a store of 100 GiB asks
/// its file system about a hundred times and not a hundred thousand; a step exceeds the need by at most
/// `most_ahead_bytes`. Where fewer than eight steps are free the drive is nearly full and the answer is exactly the
/// need.
/// Requires: from_bytes < needed_end_bytes.
std::uint64_t plan_growth(std::uint64_t from_bytes, std::uint64_t needed_end_bytes, std::uint64_t free_bytes,
                          std::uint64_t most_ahead_bytes);

/// The room of a file, set aside ahead of its extents, so that a write can neither run out of room nor make the file
/// longer, which file systems do one write at a time.
///
/// Invariant: below `end_bytes()` the bytes of all extents are set aside; those of gaps are not, they were punched.
/// Threads: any.
class FileRoom {
 public:
  /// `file` is borrowed.
  explicit FileRoom(const DirectFile& file) : file_(file) {}

  /// The file's extents reach to `end_bytes` already, and have their room.
  void start_at(std::uint64_t end_bytes);
  /// Makes sure that `extent` has room. `is_new`: it was beyond all others when it was allocated, in no gap.
  /// `most_ahead_bytes` bounds the room set aside beyond it. Errors: those of DirectFile::reserve; parts of the extent
  /// may have room then, until they are punched.
  /// Where the file system refuses a whole step (RLIMIT_FSIZE, a full drive) this asks it for the extent alone.
  Result<void> back(const Extent& extent, bool is_new, std::uint64_t most_ahead_bytes);
  /// Gives the room beyond `end_bytes` back. Requires: no extent reaches beyond, nor can one be allocated there until
  /// this has returned.
  void cut(std::uint64_t end_bytes);

  std::uint64_t end_bytes() const;

 private:
  Result<void> grow(std::uint64_t needed_end_bytes, std::uint64_t most_ahead_bytes);
  Result<void> set_aside(std::uint64_t end_bytes);

  const DirectFile& file_;
  mutable std::mutex mutex_;
  std::uint64_t end_bytes_ = 0;
};

}  // namespace castor

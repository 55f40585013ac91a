// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <castor/io/direct_file.h>
#include <castor/io/extent_allocator.h>

#include "files/file_room.h"

namespace castor {

/// One file of a StripeSet: its extents, their room, and the keys that hold them.
///
/// Threads: `file`, `device`, `back` and `punch` from any; everything else under the lock of StripeVolumes.
class StripeVolume {
 public:
  StripeVolume(DirectFile opened, std::uint64_t limit_bytes);

  const DirectFile& file() const { return file_; }
  /// The drive (st_dev) of the file.
  std::uint64_t device() const { return device_; }
  std::uint64_t allocated_bytes() const { return extents_.allocated_bytes(); }
  /// The largest extent that the file's own limit leaves.
  std::uint64_t largest_free_bytes() const { return extents_.largest_free_bytes(); }

  /// An extent, and whether it is beyond all others: then it may have room already.
  struct Taken {
    Extent extent;
    bool is_new = false;
  };
  /// Takes an extent for `key`; it has no room yet. Errors: those of ExtentAllocator::allocate.
  Result<Taken> allocate(std::uint64_t key, std::uint64_t n_bytes);
  /// Takes exactly the extent that `key` held before. Errors: io, also where the file does not reach to its end.
  Result<void> claim(std::uint64_t key, const Extent& extent);
  /// Keeps the claims so far: their extents have room.
  void keep_claims() { room_.start_at(extents_.end_bytes()); }
  /// Undoes a claim that was not kept. The file's bytes stay: bytes behind them may still be claimed.
  void unclaim(std::uint64_t key, const Extent& extent);
  /// Frees `extent` of `key`, which must have been punched, and gives back the room beyond the extent that is last now.
  void free(std::uint64_t key, const Extent& extent);

  /// Makes sure that `taken` has room (FileRoom::back).
  Result<void> back(const Taken& taken, std::uint64_t most_ahead_bytes) {
    return room_.back(taken.extent, taken.is_new, most_ahead_bytes);
  }
  /// Gives the room of `extent` back. A hole that cannot be punched costs the file system room until the file is
  /// closed; the extent itself can be used again all the same.
  void punch(const Extent& extent) const { (void)file_.punch(extent.offset_bytes, extent.n_bytes); }
  /// After the last claim: gives back the room of all bytes that no extent holds.
  void drop_unclaimed();
  /// Gives back the room set aside ahead.
  void close() { room_.cut(extents_.end_bytes()); }

  /// `holds parts of 14 keys (3, 5, 9, …; 3.20 GiB)`, or `holds nothing`.
  std::string held_text() const;

 private:
  DirectFile file_;
  std::uint64_t device_;
  ExtentAllocator extents_;
  FileRoom room_;
  std::map<std::uint64_t, std::uint64_t> bytes_of_key_;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <castor/io/direct_file.h>

#include "stripe_layout.h"
#include "stripe_volume.h"

namespace castor {

/// The bytes that `placement` takes on all volumes together.
std::uint64_t placed_bytes(const Placement& placement);

/// Why a volume could not hold its part of a placement.
struct StripeRefusal {
  std::size_t volume = 0;
  std::uint64_t free_bytes = 0;  ///< about so many are free there
  Error why;
};

/// The files of a set and the placements that hold their bytes.
///
/// Invariant: a byte of a volume belongs to at most one placement of one key, and an extent is allocated, claimed or
/// freed under one lock.
/// Threads: any. The file system is called without the lock, except by claim and drop_unclaimed.
class StripeVolumes {
 public:
  /// No file takes extents beyond `limit_bytes`.
  StripeVolumes(std::vector<DirectFile> files, std::uint64_t limit_bytes);
  /// Gives the room that was set aside ahead back to the file systems.
  ~StripeVolumes();
  StripeVolumes(const StripeVolumes&) = delete;
  StripeVolumes& operator=(const StripeVolumes&) = delete;

  std::size_t size() const { return volumes_.size(); }
  /// Only those of its functions that any thread may call.
  const StripeVolume& at(std::size_t volume) const { return *volumes_.at(volume); }

  /// Finds an extent for each length in `placement`; is_new[v] = that of volume v is beyond all others.
  /// Where a volume refuses, the placement keeps the extents of the volumes before it and none from it on.
  std::optional<StripeRefusal> allocate(std::uint64_t key, Placement& placement, std::vector<bool>& is_new);
  /// Has the file system set aside the room of an extent that was allocated (StripeVolume::back).
  std::optional<StripeRefusal> back(std::size_t volume, const StripeVolume::Taken& taken,
                                    std::uint64_t most_ahead_bytes);
  /// Takes the very bytes of `placement`. Requires: an extent per volume. Errors: those of StripeVolume::claim; then
  /// nothing has changed.
  Result<void> claim(std::uint64_t key, const Placement& placement);
  /// After the last claim: gives back the room of all bytes that no placement holds.
  void drop_unclaimed();
  /// Punches the bytes of `placement`, then frees its extents, in this order: no key can hold bytes that are still to
  /// be punched.
  void give_back(std::uint64_t key, const Placement& placement);

  std::string held_text(std::size_t volume) const;

 private:
  std::vector<std::unique_ptr<StripeVolume>> volumes_;  // fixed; the mutex guards their extents
  mutable std::mutex mutex_;
};

}  // namespace castor

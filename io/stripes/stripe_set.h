// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <castor/io/direct_file.h>
#include <castor/io/extent_allocator.h>
#include <castor/memory/budget.h>
#include <castor/memory/bytes.h>
#include <castor/memory/clock.h>
#include <castor/memory/result.h>

#include "stripe_layout.h"

namespace castor {

class StripeAccount;
class StripeDebts;
class StripeRates;
class StripeVolumes;

struct StripeOptions {
  std::vector<std::string> folders;  ///< one volume each, in this order; several may be on one drive
  Budget* budget = nullptr;          ///< borrowed; counts the extents; null = no limit
  std::uint64_t block_bytes = kMiB;  ///< the unit a value is cut in; a multiple of 4096
  Clock clock = steady_now_ns;       ///< the one that gives the times passed to `started` and `ended`
  std::uint64_t file_limit_bytes = ExtentAllocator::kUnlimited;  ///< no file takes extents beyond
};

/// The files of a store, one per folder (a *volume*), and the keys that hold their bytes.
///
/// A value is dealt over the volumes in units of block_bytes, in proportion to the measured speed of the volumes, so
/// that all of them end a transfer at the same time: with rates of 3 and 1 GiB/s a value of 8 units is split 6 : 2, as
/// 0 0 0 1 0 0 0 1 in the order of its bytes. Volumes begin equal; their shares follow their rates (StripeRates), at
/// least 2 % each. The bytes that rounding to whole units gives a volume too much are kept as its debt: a value of one
/// unit goes to the volume most below its share, and over many values each volume gets its share, whatever the sizes. A
/// volume that was full is owed 16 blocks at most.
///
/// The file system sets room aside ahead of the extents (FileRoom). The budget counts the extents in whole pages of
/// 4096 bytes, without the room ahead of them. Units that do not fit in one folder go to the others.
///
/// Threads: any thread may call anything. `started` and `ended` take a lock of their own, per volume, and allocate
/// nothing; `take` and `give_back` call the file system.
class StripeSet {
 public:
  /// One unnamed file in each folder: nothing outlives the set. Errors: those of DirectFile::create_unnamed; usage,
  /// where no folder is named, or more than kMostVolumes, or block_bytes is no multiple of 4096.
  static Result<std::unique_ptr<StripeSet>> open(const StripeOptions& options);
  /// The file names[v] in folder v, created where it does not exist (to write) and locked either way. Its bytes belong
  /// to no key until they are claimed; the file outlives the set.
  /// Errors: the same, of DirectFile::open. Requires: a name per folder (ContractViolation).
  static Result<std::unique_ptr<StripeSet>> open_named(const StripeOptions& options,
                                                       const std::vector<std::string>& names,
                                                       DirectFile::Mode mode = DirectFile::Mode::write);
  /// Releases the bytes still held from the budget, and gives the room set aside ahead back to the file systems.
  ~StripeSet();
  StripeSet(const StripeSet&) = delete;
  StripeSet& operator=(const StripeSet&) = delete;

  /// Takes room for `n_bytes` of `key`, set aside by the file systems; deal_blocks gives the place of each block. A key
  /// may hold any number of placements.
  ///
  /// Each volume gets its share; where one lacks the room, the others get more. Errors: does_not_fit (the budget, or
  /// the file limits); io, where no folder has room, with the figures of each. Then nothing has changed.
  Result<Placement> take(std::uint64_t key, std::uint64_t n_bytes);
  /// Takes exactly the bytes of `placement`, for a set that is opened again. They count against the budget. Requires:
  /// all claims precede the first take, which may hand out bytes that are not claimed.
  /// Errors: does_not_fit (the budget); io, where the placement has another number of volumes, bytes of it are taken,
  /// or a file does not reach that far. Then nothing has changed.
  Result<void> claim(std::uint64_t key, const Placement& placement);
  /// After the last claim: gives the room of all bytes that no key holds back to the file systems (a run that died may
  /// have written them or set them aside).
  void drop_unclaimed();
  /// Gives the room back to file system, file and budget, in this order, so that no key can hold bytes that are still
  /// to be punched. Requires: `key` holds it (ContractViolation).
  void give_back(std::uint64_t key, const Placement& placement);

  /// Whether a value should be placed anew when it is next written: more than a quarter of its units are on volumes
  /// where today's shares would not put them. One unit too many is rounding and does not count, except on a volume more
  /// than four times slower than the best; so a value of one unit moves from such a volume only. Allocates nothing.
  bool worth_moving(const Placement& placement) const;

  /// A transfer of `volume` has started, or has ended after `n_bytes` (0 where it failed), at `now_ns`.
  void started(std::size_t volume, std::uint64_t now_ns) noexcept;
  void ended(std::size_t volume, std::uint64_t n_bytes, std::uint64_t now_ns) noexcept;

  std::size_t n_volumes() const;
  const DirectFile& file(std::size_t volume) const;
  /// The drive of the volume (st_dev): equal for volumes that share one.
  std::uint64_t device(std::size_t volume) const;
  /// The parts of the next bytes that each volume gets; they add up to 1.
  std::vector<double> shares() const;
  /// The values that would be lost with the volume, for messages: `holds parts of 14 keys (3, 5, 9, …; 3.20 GiB)`.
  std::string held_text(std::size_t volume) const;

  std::uint64_t block_bytes() const { return block_bytes_; }
  std::uint64_t allocated_bytes() const;
  std::uint64_t peak_allocated_bytes() const;
  /// A sentence for each folder without direct I/O.
  std::vector<std::string> warnings() const;

 private:
  StripeSet(const StripeOptions& options, std::vector<DirectFile> files);

  const std::uint64_t block_bytes_;
  const Clock clock_;
  const std::unique_ptr<StripeAccount> account_;
  const std::unique_ptr<StripeVolumes> volumes_;
  const std::unique_ptr<StripeRates> rates_;
  const std::unique_ptr<StripeDebts> debts_;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <castor/io/extent_allocator.h>

namespace castor {

/// The place of a value: one extent per volume of its store, n_bytes 0 = none on that volume.
///
/// A store keeps nothing else of the place: the offset of each byte follows from it, the value's length and the store's
/// block_bytes (deal_blocks).
struct Placement {
  std::vector<Extent> extents;
};

/// A part of a value that moves in one request and has one checksum.
struct ValueBlock {
  std::uint64_t offset_bytes = 0;  ///< in the value
  std::uint64_t n_bytes = 0;
  std::size_t volume = 0;
  std::uint64_t file_offset_bytes = 0;  ///< in the volume's file; a multiple of 4096
};

/// The most volumes a value can be dealt over.
inline constexpr std::size_t kMostVolumes = 64;
/// The most units a value can have: 64 TiB of them at 1 MiB each.
inline constexpr std::uint64_t kMostUnits = std::uint64_t{1} << 26;

/// Whether a value may be cut into units of `block_bytes`: multiples of 4096, 1 TiB at most.
bool is_block_size(std::uint64_t block_bytes);

/// The number of units that a value of `n_bytes` is cut into; an empty value has one. Requires, here and below:
/// is_block_size (ContractViolation).
std::uint64_t n_value_units(std::uint64_t n_bytes, std::uint64_t block_bytes);

/// The bytes a value of `n_bytes` takes: whole pages of 4096 bytes, and at least one.
std::uint64_t value_room_bytes(std::uint64_t n_bytes);

/// Deals the units of a value over volumes: volume v gets counts[v] of them, evenly interleaved.
///
/// With n units in all, unit number j (from 0) of volume v may be dealt from turn floor(j·n / counts[v]) on and must be
/// dealt before turn ceil((j+1)·n / counts[v]); each turn deals the unit with the earliest end of its window, on a tie
/// that of the lower volume. These windows can always be met (S. Baruah, N. Cohen, C. Plaxton, D. Varvel,
/// "Proportionate progress", 1996), so that after any k units volume v has more than k·counts[v]/n − 1 and fewer than
/// k·counts[v]/n + 1 of them.
class UnitDealer {
 public:
  /// Requires: at most kMostVolumes counts, at least one unit and at most kMostUnits in all (ContractViolation).
  explicit UnitDealer(std::span<const std::uint64_t> counts);

  /// The volume of the next unit. Requires: there is one. Cost: O(volumes), no allocation.
  std::size_t next();

 private:
  struct Lot {
    std::uint64_t n_units = 0;
    std::uint64_t n_dealt = 0;
    std::uint64_t first_turn = 0;
    std::uint64_t last_turn = 0;  // exclusive
  };
  void open_window(Lot& lot) const;

  std::array<Lot, kMostVolumes> lots_;
  std::size_t n_lots_;
  std::uint64_t n_units_ = 0;
  std::uint64_t turn_ = 0;
};

/// The lengths of the extents that hold counts[v] units each of a value of `n_bytes`; offsets are 0. All units are
/// whole blocks but the last, which the dealer puts on one of the volumes.
Placement plan_extents(std::span<const std::uint64_t> counts, std::uint64_t n_bytes, std::uint64_t block_bytes);

/// Whether `placement` is one of a value of `n_bytes`, so that deal_blocks takes it: for placements from outside, whose
/// numbers may be anything.
bool holds_value(const Placement& placement, std::uint64_t n_bytes, std::uint64_t block_bytes);

/// Fills `blocks` with the blocks of a value of `n_bytes` in the order of their bytes. No allocation where the vector's
/// capacity suffices (units + 1).
///
/// A value is cut into units of `block_bytes`. The volumes hold ceil(extent / block_bytes) units each, dealt by
/// UnitDealer; a volume's units follow each other in its extent. A whole unit is one block. The last unit is up to two
/// blocks on the same volume: its whole pages of 4096 bytes and, behind them, the rest that fills no page; only that
/// rest needs a padded copy. A value of 0 bytes has no blocks.
/// Requires: holds_value (ContractViolation).
void deal_blocks(const Placement& placement, std::uint64_t n_bytes, std::uint64_t block_bytes,
                 std::vector<ValueBlock>& blocks);

/// The end of the block that begins at `at` in a value of `n_bytes`. Requires: `at` is 0 or the end of another block,
/// and below `n_bytes`.
std::uint64_t value_block_end(std::uint64_t at, std::uint64_t n_bytes, std::uint64_t block_bytes);

/// Splits `n_units` into `counts` in proportion to `wanted` (0 where negative; equally where all are 0), at most
/// most[v] for volume v. Units that a full volume cannot take go to the others; units that rounding leaves go to the
/// largest fractions. False where `most` is too little for all units; then the counts mean nothing.
/// Requires: at most kMostVolumes volumes.
bool share_units(std::uint64_t n_units, std::span<const double> wanted, std::span<const std::uint64_t> most,
                 std::span<std::uint64_t> counts);

}  // namespace castor

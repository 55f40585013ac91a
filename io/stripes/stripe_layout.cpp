// SPDX-License-Identifier: Apache-2.0
#include "stripe_layout.h"

#include <algorithm>
#include <optional>
#include <string>

#include <castor/memory/bytes.h>
#include <castor/memory/result.h>

namespace castor {
namespace {

constexpr std::uint64_t kPageBytes = ExtentAllocator::kGrainBytes;
constexpr std::uint64_t kMostBlockBytes = std::uint64_t{1} << 40;

using UnitCounts = std::array<std::uint64_t, kMostVolumes>;

void check_block_bytes(std::uint64_t block_bytes) {
  if (!is_block_size(block_bytes))
    throw ContractViolation("blocks of " + std::to_string(block_bytes) + " bytes; they must be whole pages of " +
                            std::to_string(kPageBytes) + " and at most " + format_bytes(kMostBlockBytes));
}

std::uint64_t divide_up(std::uint64_t n, std::uint64_t by) { return n / by + (n % by == 0 ? 0 : 1); }

/// The bytes by which the last unit's room is shorter than a block.
std::uint64_t last_unit_lacks(std::uint64_t n_bytes, std::uint64_t block_bytes) {
  return n_value_units(n_bytes, block_bytes) * block_bytes - value_room_bytes(n_bytes);
}

/// The volume of the last of all units.
std::size_t volume_of_last(std::span<const std::uint64_t> counts) {
  const auto n_volumes_used = counts.size() - static_cast<std::size_t>(std::count(counts.begin(), counts.end(), 0u));
  if (n_volumes_used == 1)
    return static_cast<std::size_t>(std::find_if(counts.begin(), counts.end(), [](auto n) { return n > 0; }) -
                                    counts.begin());
  UnitDealer dealer(counts);
  std::uint64_t n_units = 0;
  for (const auto count : counts) n_units += count;
  for (std::uint64_t i = 1; i < n_units; ++i) dealer.next();
  return dealer.next();
}

/// Whether `extent` is whole pages of a file, or nothing.
bool is_possible(const Extent& extent) {
  return extent.n_bytes <= ExtentAllocator::kUnlimited &&
         extent.offset_bytes <= ExtentAllocator::kUnlimited - extent.n_bytes && extent.n_bytes % kPageBytes == 0 &&
         extent.offset_bytes % kPageBytes == 0;
}

/// The units in each extent, in `room`; nothing where the extents do not add up to a value of `n_bytes`. Does not check
/// the volume of the last unit.
std::optional<std::span<const std::uint64_t>> count_units(const Placement& placement, std::uint64_t n_bytes,
                                                          std::uint64_t block_bytes, UnitCounts& room) {
  const auto& extents = placement.extents;
  if (extents.size() > room.size() || n_bytes > ExtentAllocator::kUnlimited - kPageBytes) return std::nullopt;
  if (n_value_units(n_bytes, block_bytes) > kMostUnits) return std::nullopt;
  std::uint64_t units_left = n_value_units(n_bytes, block_bytes);
  std::uint64_t bytes_left = value_room_bytes(n_bytes);
  for (std::size_t v = 0; v < extents.size(); ++v) {
    room[v] = divide_up(extents[v].n_bytes, block_bytes);
    if (!is_possible(extents[v]) || room[v] > units_left || extents[v].n_bytes > bytes_left) return std::nullopt;
    units_left -= room[v];
    bytes_left -= extents[v].n_bytes;
  }
  if (units_left != 0 || bytes_left != 0) return std::nullopt;
  return std::span<const std::uint64_t>(room).first(extents.size());
}

}  // namespace

bool is_block_size(std::uint64_t block_bytes) {
  return block_bytes > 0 && block_bytes % kPageBytes == 0 && block_bytes <= kMostBlockBytes;
}

std::uint64_t n_value_units(std::uint64_t n_bytes, std::uint64_t block_bytes) {
  check_block_bytes(block_bytes);
  return std::max<std::uint64_t>(divide_up(n_bytes, block_bytes), 1);
}

std::uint64_t value_room_bytes(std::uint64_t n_bytes) {
  return align_up(std::max<std::uint64_t>(n_bytes, 1), kPageBytes);
}

UnitDealer::UnitDealer(std::span<const std::uint64_t> counts) : n_lots_(counts.size()) {
  if (n_lots_ > kMostVolumes)
    throw ContractViolation(std::to_string(n_lots_) + " volumes, more than " + std::to_string(kMostVolumes));
  for (const auto count : counts) n_units_ = std::min(n_units_ + std::min(count, kMostUnits + 1), kMostUnits + 1);
  if (n_units_ == 0 || n_units_ > kMostUnits) throw ContractViolation("no units to deal, or more than can be");
  for (std::size_t v = 0; v < n_lots_; ++v) {
    lots_[v].n_units = counts[v];
    if (counts[v] > 0) open_window(lots_[v]);
  }
}

/// No product here can overflow: both factors are at most kMostUnits.
void UnitDealer::open_window(Lot& lot) const {
  lot.first_turn = lot.n_dealt * n_units_ / lot.n_units;
  lot.last_turn = divide_up((lot.n_dealt + 1) * n_units_, lot.n_units);
}

std::size_t UnitDealer::next() {
  std::size_t chosen = n_lots_;
  for (std::size_t v = 0; v < n_lots_; ++v) {
    const auto& lot = lots_[v];
    const bool may = lot.n_dealt < lot.n_units && lot.first_turn <= turn_;
    if (may && (chosen == n_lots_ || lot.last_turn < lots_[chosen].last_turn)) chosen = v;
  }
  if (chosen == n_lots_) throw ContractViolation("all " + std::to_string(n_units_) + " units are dealt");
  ++turn_;
  auto& lot = lots_[chosen];
  if (++lot.n_dealt < lot.n_units) open_window(lot);
  return chosen;
}

Placement plan_extents(std::span<const std::uint64_t> counts, std::uint64_t n_bytes, std::uint64_t block_bytes) {
  Placement placement;
  placement.extents.reserve(counts.size());
  for (const auto count : counts) placement.extents.push_back({0, count * block_bytes});
  if (const auto lacks = last_unit_lacks(n_bytes, block_bytes); lacks > 0)
    placement.extents[volume_of_last(counts)].n_bytes -= lacks;
  return placement;
}

bool holds_value(const Placement& placement, std::uint64_t n_bytes, std::uint64_t block_bytes) {
  check_block_bytes(block_bytes);
  UnitCounts room;
  const auto counts = count_units(placement, n_bytes, block_bytes, room);
  if (!counts) return false;
  const auto lacks = last_unit_lacks(n_bytes, block_bytes);
  if (lacks == 0) return true;
  const auto last = volume_of_last(*counts);
  return placement.extents[last].n_bytes == (*counts)[last] * block_bytes - lacks;
}

std::uint64_t value_block_end(std::uint64_t at, std::uint64_t n_bytes, std::uint64_t block_bytes) {
  const auto unit_end = (at / block_bytes + 1) * block_bytes;
  if (unit_end <= n_bytes) return unit_end;
  const auto whole_end = n_bytes - n_bytes % kPageBytes;
  return at < whole_end ? whole_end : n_bytes;
}

void deal_blocks(const Placement& placement, std::uint64_t n_bytes, std::uint64_t block_bytes,
                 std::vector<ValueBlock>& blocks) {
  check_block_bytes(block_bytes);
  blocks.clear();
  if (n_bytes == 0) return;
  UnitCounts room;
  const auto counts = count_units(placement, n_bytes, block_bytes, room);
  if (!counts) throw ContractViolation("the extents do not add up to a value of " + std::to_string(n_bytes) + " bytes");
  blocks.reserve(n_value_units(n_bytes, block_bytes) + 1);
  UnitDealer dealer(*counts);
  std::array<std::uint64_t, kMostVolumes> n_before{};
  for (std::uint64_t at = 0; at < n_bytes; at += block_bytes) {
    const auto volume = dealer.next();
    const auto& extent = placement.extents[volume];
    const auto in_extent = block_bytes * n_before[volume]++;
    const auto unit_bytes = std::min(block_bytes, n_bytes - at);
    if (in_extent + value_room_bytes(unit_bytes) > extent.n_bytes)
      throw ContractViolation("the last unit of a value of " + std::to_string(n_bytes) + " bytes has no room");
    for (std::uint64_t begin = at, end = 0; begin < at + unit_bytes; begin = end) {
      end = value_block_end(begin, n_bytes, block_bytes);
      blocks.push_back({begin, end - begin, volume, extent.offset_bytes + in_extent + begin - at});
    }
  }
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "room.h"

#include <algorithm>

namespace castor {
namespace {

constexpr std::uint64_t kNoLimitBytes = std::uint64_t{1} << 60;
constexpr std::int64_t kMoreThanAnyBytes = std::int64_t{1} << 62;

/// Calls `each(begin, end)` for the one or two stretches of `periods`.
template <typename Each>
void stretches(Periods periods, std::size_t n_moments, const Each& each) {
  const std::size_t end = std::size_t{periods.first} + periods.count;
  if (periods.count > 0) each(periods.first, std::min(end, n_moments));
  if (end > n_moments) each(0, end - n_moments);
}

/// std::min without std::min_element, which would wait for every comparison.
std::int64_t least_in(const std::vector<std::int64_t>& values, std::size_t begin, std::size_t end) {
  auto least = kMoreThanAnyBytes;
  for (std::size_t i = begin; i < end; ++i) least = std::min(least, values[i]);
  return least;
}

}  // namespace

TimeOfStay time_of_stay(const MoveProblem& problem, const PlannedChunk& chunk, std::size_t use) {
  const std::uint32_t n = problem.n_moments, here = chunk.uses[use].moment;
  const ChunkUse& next_use = chunk.uses[(use + 1) % chunk.uses.size()];
  const std::uint32_t next = next_use.moment;
  const std::uint32_t to_next = next > here ? next - here : next + n - here;
  const std::uint32_t n_ahead = std::min(next_use.n_ahead, to_next - 1);
  const std::uint32_t n_behind = std::min(chunk.uses[use].n_behind, to_next - 1 - n_ahead);
  return {{here, 1 + n_behind},
          {(here + 1 + n_behind) % n, to_next - 1 - n_behind - n_ahead},
          {(next + n - n_ahead) % n, n_ahead}};
}

BytesByPeriod room_of(const MoveProblem& problem) {
  BytesByPeriod room;
  for (const Tier tier : kLimitedTiers)
    for (const std::uint64_t n_bytes : problem.room_bytes[index(tier)])
      room[index(tier)].push_back(static_cast<std::int64_t>(std::min(n_bytes, kNoLimitBytes)));
  return room;
}

BytesAdded::BytesAdded(std::uint32_t n_moments) {
  for (auto& steps : steps_) steps.assign(n_moments + std::size_t{1}, 0);
}

void BytesAdded::add(Tier tier, Periods periods, std::int64_t n_bytes) {
  auto& steps = steps_[index(tier)];
  stretches(periods, steps.size() - 1, [&](std::size_t begin, std::size_t end) {
    steps[begin] += n_bytes;
    steps[end] -= n_bytes;
  });
}

BytesByPeriod BytesAdded::onto(BytesByPeriod before) const {
  for (const Tier tier : kLimitedTiers) {
    std::int64_t added = 0;
    for (std::size_t m = 0; m < before[index(tier)].size(); ++m)
      before[index(tier)][m] += added += steps_[index(tier)][m];
  }
  return before;
}

Room::Line::Line(const std::vector<std::int64_t>& bytes) : levels_{{bytes, {}}} {
  if (bytes.empty()) levels_[0].least = {kMoreThanAnyBytes};
  while (levels_.back().least.size() > 1) {
    const std::size_t n_blocks = (levels_.back().least.size() + kBlock - 1) / kBlock;
    levels_.push_back({std::vector<std::int64_t>(n_blocks), std::vector<std::int64_t>(n_blocks)});
    for (std::size_t block = 0; block < n_blocks; ++block) refresh(levels_.size() - 1, block);
  }
}

void Room::Line::refresh(std::size_t level, std::size_t block) {
  const auto& below = levels_[level - 1].least;
  Level& here = levels_[level];
  here.least[block] = here.added[block] + least_in(below, block * kBlock, std::min((block + 1) * kBlock, below.size()));
}

/// On each level takes the parts of the stretch at either end that are no whole blocks.
std::int64_t Room::Line::least(std::size_t begin, std::size_t end) const {
  auto first = kMoreThanAnyBytes, last = kMoreThanAnyBytes;  // in the blocks of the level that hold either end
  std::size_t first_block = begin, last_block = end - 1;
  for (std::size_t level = 0; level < levels_.size(); ++level, first_block /= kBlock, last_block /= kBlock) {
    const Level& here = levels_[level];
    if (level > 0) first += here.added[first_block], last += here.added[last_block];
    const std::size_t head = std::min((begin + kBlock - 1) / kBlock * kBlock, end);
    first = std::min(first, least_in(here.least, begin, head));
    const std::size_t tail = std::max(end / kBlock * kBlock, head);
    last = std::min(last, least_in(here.least, tail, end));
    begin = (head + kBlock - 1) / kBlock, end = std::max(tail / kBlock, begin);
  }
  return std::min(first, last);
}

void Room::Line::add(std::size_t begin, std::size_t end, std::int64_t n_bytes) {
  std::size_t first_block = begin, last_block = end - 1;
  for (std::size_t level = 0; level < levels_.size(); ++level, first_block /= kBlock, last_block /= kBlock) {
    Level& here = levels_[level];
    if (level > 0) refresh(level, first_block);
    if (level > 0 && last_block != first_block) refresh(level, last_block);
    const auto add_to = [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) here.least[i] += n_bytes;
      for (std::size_t i = from; i < to && level > 0; ++i) here.added[i] += n_bytes;
    };
    const std::size_t head = std::min((begin + kBlock - 1) / kBlock * kBlock, end);
    const std::size_t tail = std::max(end / kBlock * kBlock, head);
    add_to(begin, head);
    add_to(tail, end);
    begin = (head + kBlock - 1) / kBlock, end = std::max(tail / kBlock, begin);
  }
}

Room::Room(const BytesByPeriod& bytes) : lines_{Line(bytes[0]), Line(bytes[1])} {}

bool Room::has(Tier tier, Periods periods, std::int64_t n_bytes) const {
  const Line& line = lines_[index(tier)];
  if (line.least() >= n_bytes) return true;
  bool has = true;
  stretches(periods, line.size(),
            [&](std::size_t begin, std::size_t end) { has = has && line.least(begin, end) >= n_bytes; });
  return has;
}

void Room::add(Tier tier, Periods periods, std::int64_t n_bytes) {
  Line& line = lines_[index(tier)];
  stretches(periods, line.size(), [&](std::size_t begin, std::size_t end) { line.add(begin, end, n_bytes); });
}

}  // namespace castor

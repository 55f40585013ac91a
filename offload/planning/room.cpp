// SPDX-License-Identifier: Apache-2.0
#include "room.h"

#include <algorithm>
#include <limits>

namespace castor {
namespace {

constexpr std::uint64_t kNoLimitBytes = std::uint64_t{1} << 60;

/// Calls `each(begin, end)` for the one or two stretches that `periods` are made of.
template <typename Each>
void stretches(Periods periods, std::size_t n_moments, const Each& each) {
  const std::size_t end = std::size_t{periods.first} + periods.count;
  each(periods.first, std::min(end, n_moments));
  if (end > n_moments) each(0, end - n_moments);
}

/// Without std::min_element, which would wait for every comparison.
std::int64_t least_in(const std::vector<std::int64_t>& values, std::size_t begin, std::size_t end) {
  auto least = std::numeric_limits<std::int64_t>::max();
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

Room::Room(const MoveProblem& problem) {
  for (const Tier tier : kLimitedTiers) {
    Line& line = lines_[index(tier)];
    for (const std::uint64_t n_bytes : problem.room_bytes[index(tier)])
      line.rest.push_back(static_cast<std::int64_t>(std::min(n_bytes, kNoLimitBytes)));
    const std::size_t n_blocks = (line.rest.size() + kBlock - 1) / kBlock;
    line.added.assign(n_blocks, 0);
    line.least.assign(n_blocks, 0);
    for (std::size_t begin = 0; begin < line.rest.size(); begin += kBlock) line.add_within(begin, begin, 0);
  }
}

std::int64_t Room::Line::least_of(std::size_t begin, std::size_t end) const {
  auto found = std::numeric_limits<std::int64_t>::max();
  while (begin < end) {
    const std::size_t block = begin / kBlock, next = std::min((block + 1) * kBlock, end);
    const bool whole = next - begin == kBlock;
    found = std::min(found, (whole ? least[block] : least_in(rest, begin, next)) + added[block]);
    begin = next;
  }
  return found;
}

void Room::Line::add(std::size_t begin, std::size_t end, std::int64_t n_bytes) {
  while (begin < end) {
    const std::size_t next = std::min((begin / kBlock + 1) * kBlock, end);
    if (next - begin == kBlock)
      added[begin / kBlock] += n_bytes;
    else
      add_within(begin, next, n_bytes);
    begin = next;
  }
}

/// To part of a block.
void Room::Line::add_within(std::size_t begin, std::size_t end, std::int64_t n_bytes) {
  const std::size_t block = begin / kBlock;
  for (std::size_t i = begin; i < end; ++i) rest[i] += n_bytes;
  least[block] = least_in(rest, block * kBlock, std::min((block + 1) * kBlock, rest.size()));
}

std::int64_t Room::least(Tier tier, Periods periods) const {
  const Line& line = lines_[index(tier)];
  auto least = std::numeric_limits<std::int64_t>::max();
  stretches(periods, line.rest.size(),
            [&](std::size_t begin, std::size_t end) { least = std::min(least, line.least_of(begin, end)); });
  return least;
}

void Room::add(Tier tier, Periods periods, std::int64_t n_bytes) {
  Line& line = lines_[index(tier)];
  stretches(periods, line.rest.size(), [&](std::size_t begin, std::size_t end) { line.add(begin, end, n_bytes); });
}

}  // namespace castor

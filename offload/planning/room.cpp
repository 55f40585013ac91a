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

}  // namespace

TimeOfStay time_of_stay(const MoveProblem& problem, const PlannedChunk& chunk, std::size_t use) {
  const std::uint32_t n = problem.n_moments, here = chunk.uses[use].moment;
  const std::uint32_t next = chunk.uses[(use + 1) % chunk.uses.size()].moment;
  const std::uint32_t to_next = next > here ? next - here : next + n - here;
  const std::uint32_t n_ahead = std::min(problem.n_ahead, to_next - 1);
  return {{here, 1}, {(here + 1) % n, to_next - 1 - n_ahead}, {(next + n - n_ahead) % n, n_ahead}};
}

Room::Room(const MoveProblem& problem) {
  for (const Tier tier : kLimitedTiers)
    for (const std::uint64_t n_bytes : problem.room_bytes[index(tier)])
      at_[index(tier)].push_back(static_cast<std::int64_t>(std::min(n_bytes, kNoLimitBytes)));
}

std::int64_t Room::least(Tier tier, Periods periods) const {
  const auto& room = at_[index(tier)];
  auto least = std::numeric_limits<std::int64_t>::max();
  stretches(periods, room.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) least = std::min(least, room[i]);
  });
  return least;
}

void Room::add(Tier tier, Periods periods, std::int64_t n_bytes) {
  auto& room = at_[index(tier)];
  stretches(periods, room.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) room[i] += n_bytes;
  });
}

}  // namespace castor

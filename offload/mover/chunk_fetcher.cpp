// SPDX-License-Identifier: Apache-2.0
#include "chunk_fetcher.h"

namespace castor {

Result<void> ChunkFetcher::bring(ChunkId id, Tier tier) {
  const Chunk& chunk = parts_.chunks.chunk(id);
  if (chunk.at(tier).current) return hop(id, tier);
  if (tier == Tier::device) return bring_up(id);
  if (!chunk.resident(Tier::device)) return hop(id, Tier::host);
  parts_.chunks.pin(id, Tier::device);  // must not be evicted to make room for its own next hop
  auto outcome = hop(id, Tier::host);
  parts_.chunks.unpin(id, Tier::device);
  return outcome;
}

/// Fetches the chunk to the host, and from there to the device.
Result<void> ChunkFetcher::bring_up(ChunkId id) {
  CASTOR_TRY(bring(id, Tier::host));
  CASTOR_TRY(parts_.waits.for_arrival(id, Tier::host));
  parts_.chunks.pin(id, Tier::host);  // as in bring
  auto outcome = hop(id, Tier::device);
  parts_.chunks.unpin(id, Tier::host);
  if (outcome.ok() || outcome.error().kind != ErrorKind::does_not_fit) return outcome;
  outcome = bring_up_again(id);
  if (!outcome.ok()) give_up(id, Tier::device);
  return outcome;
}

/// The chunk to evict from the device needs the room that this one has on the host: makes room on the device first,
/// which may evict this one from the host, then fetches it there again.
Result<void> ChunkFetcher::bring_up_again(ChunkId id) {
  CASTOR_TRY(open(id, Tier::device));
  CASTOR_TRY(bring(id, Tier::host));
  CASTOR_TRY(parts_.chunks.fetch(id, Tier::device));
  return {};
}

/// One hop from a neighbouring tier, evicting until there is room for it.
Result<void> ChunkFetcher::hop(ChunkId id, Tier tier) {
  while (true) {
    const auto fetched = parts_.chunks.fetch(id, tier);
    if (fetched.ok()) return {};
    if (fetched.error().kind != ErrorKind::does_not_fit) return fetched.error();
    CASTOR_TRY(parts_.room.make_room(id, tier, fetched.error()));
  }
}

Result<BufferView> ChunkFetcher::open(ChunkId id, Tier tier) {
  while (true) {
    auto opened = parts_.chunks.open(id, tier);
    if (opened.ok() || opened.error().kind != ErrorKind::does_not_fit) return opened;
    CASTOR_TRY(parts_.room.make_room(id, tier, opened.error()));
  }
}

Result<void> ChunkFetcher::push_down(ChunkId id, Tier tier) {
  const Chunk& chunk = parts_.chunks.chunk(id);
  if (!chunk.resident(tier) || chunk.at(tier).n_pins > 0) return {};
  if (tier == Tier::device && !chunk.clean(tier)) CASTOR_TRY(bring(id, Tier::host));
  return parts_.chunks.release(id, tier);
}

void ChunkFetcher::give_up(ChunkId id, Tier tier) {
  const ChunkCopy& copy = parts_.chunks.chunk(id).at(tier);
  if (!copy.current && copy.n_pins == 0) (void)parts_.chunks.release(id, tier);  // writes nothing below: cannot fail
}

}  // namespace castor

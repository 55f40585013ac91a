// SPDX-License-Identifier: Apache-2.0
#include "eviction_policy.h"

#include <algorithm>
#include <tuple>

namespace castor {
namespace {

/// The index of the candidate with the highest key; of the first where several have it.
template <typename Key>
std::size_t highest(std::span<const EvictionCandidate> candidates, const Key& key) {
  const auto best = std::max_element(candidates.begin(), candidates.end(),
                                     [&key](const auto& a, const auto& b) { return key(a) < key(b); });
  return static_cast<std::size_t>(best - candidates.begin());
}

}  // namespace

std::size_t farthest_next_use(std::span<const EvictionCandidate> candidates) {
  return highest(candidates, [](const EvictionCandidate& c) {
    return std::tuple(!c.goes_up, c.unwanted, !c.pending, c.pending ? ~c.last_use : c.next_use, c.clean, ~c.last_use);
  });
}

std::size_t by_recency(std::span<const EvictionCandidate> candidates) {
  return highest(candidates, [](const EvictionCandidate& c) {
    return std::tuple(!c.goes_up, c.unwanted, !c.pending, c.once, c.once ? c.last_use : ~c.last_use, c.clean);
  });
}

void EvictionPolicy::note_use(ChunkId id, Tier tier) {
  auto& uses = last_use_[index(tier)];
  if (!uses.contains(id)) uses.resize(chunks_.ids().size(), 0);
  uses[id] = clock_;
}

std::optional<EvictionCandidate> EvictionPolicy::choose(Tier tier, ChunkId wanted, const MoveGuide& guide,
                                                        std::optional<std::uint64_t> free_above_bytes) const {
  const auto could_go = candidates(tier, wanted, guide, free_above_bytes);
  if (could_go.empty()) return {};
  return could_go[guide.on_trace() ? farthest_next_use(could_go) : by_recency(could_go)];
}

std::vector<EvictionCandidate> EvictionPolicy::candidates(Tier tier, ChunkId wanted, const MoveGuide& guide,
                                                          std::optional<std::uint64_t> free_above_bytes) const {
  std::vector<EvictionCandidate> found;
  const bool bottom = tier == Tier::host && chunks_.below().spill() == nullptr;
  for (const ChunkId id : chunks_.ids()) {
    const ChunkCopy& copy = chunks_.chunk(id).at(tier);
    if (id == wanted || !copy.current || copy.leaving || copy.n_pins > 0) continue;
    EvictionCandidate one = candidate(id, tier, guide);
    const Chunk& chunk = chunks_.chunk(id);
    const bool belongs_up = holds(planned_.wanted(id, guide.on_trace()), Tier::device) &&
                            (one.unwanted || chunk.n_bytes <= free_above_bytes.value_or(0));
    one.goes_up = bottom && free_above_bytes && !one.clean && (belongs_up || chunk.at(Tier::device).current);
    if (!bottom || one.clean || one.goes_up) found.push_back(one);
  }
  return found;
}

EvictionCandidate EvictionPolicy::candidate(ChunkId id, Tier tier, const MoveGuide& guide) const {
  const Chunk& chunk = chunks_.chunk(id);
  const auto& uses = last_use_[index(tier)];
  return {.chunk = id,
          .next_use = guide.next_use(id, tier),
          .last_use = uses.contains(id) ? uses[id] : 0,
          .clean = chunk.clean(tier),
          .unwanted = !holds(planned_.wanted(id, guide.on_trace()), tier),
          .pending = !chunk.at(tier).arrived.ready(),
          .once = chunk.kind == ChunkKind::state};
}

}  // namespace castor

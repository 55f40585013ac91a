// SPDX-License-Identifier: Apache-2.0
// How StatefulTensorMgr makes room in a full tier.
#include <castor/mover/stateful_tensor_mgr.h>

#include <algorithm>
#include <string>

#include <castor/memory/bytes.h>

#include "iteration_follower.h"
#include "plan_replay.h"

namespace castor {

/// Frees memory in `tier` after an allocation was `refused`, or says why it cannot: what has finished leaving first, then
/// what the plan wants elsewhere, then what leaves already, last what the policy names.
Result<void> StatefulTensorMgr::make_room(ChunkId wanted, Tier tier, const Error& refused) {
  CASTOR_ASSIGN(const std::uint64_t freed_bytes, chunks_.reap(tier));
  if (freed_bytes > 0) return {};
  if (const auto unwanted = unwanted_copy(tier, wanted)) {
    CASTOR_TRY(chunks_.release(*unwanted, tier));
    return wait_for_room(wanted, tier, refused);
  }
  if (course_->replay && chunks_.memory().leaving(tier)) {
    CASTOR_ASSIGN(const std::uint64_t freed_after_wait_bytes, wait_for_leaving(tier));
    if (freed_after_wait_bytes > 0) return {};
  }
  return evict(wanted, tier, refused);
}

/// A chunk whose copy in `tier` the plan does not want, and which is current elsewhere.
std::optional<ChunkId> StatefulTensorMgr::unwanted_copy(Tier tier, ChunkId wanted) const {
  const auto found = std::find_if(going_.begin(), going_.end(), [&](ChunkId id) {
    const ChunkCopy& copy = chunks_.chunk(id).at(tier);
    const bool can_go = id != wanted && copy.current && !copy.leaving && copy.n_pins == 0;
    return can_go && !holds(wanted_[id], tier) && chunks_.chunk(id).clean(tier);
  });
  return found != going_.end() ? std::optional(*found) : std::nullopt;
}

/// What the policy names goes, unless it has to be moved while something is leaving already.
Result<void> StatefulTensorMgr::evict(ChunkId wanted, Tier tier, const Error& refused) {
  const auto could_go = candidates(tier, wanted);
  if (could_go.empty()) return wait_for_room(wanted, tier, refused);
  const auto& victim = could_go[(steady() ? *farthest_ : *by_recency_).choose(could_go)];
  if (!victim.clean && chunks_.memory().leaving(tier)) {
    CASTOR_ASSIGN(const std::uint64_t freed_bytes, wait_for_leaving(tier));
    if (freed_bytes > 0) return {};
  }
  if (victim.pending && tier == Tier::host) CASTOR_TRY(wait_for(victim.chunk, tier));
  CASTOR_TRY(push_down(victim.chunk, tier));
  return wait_for_room(wanted, tier, refused);
}

/// Waits for the first that leaves; nothing leaving is an error.
Result<void> StatefulTensorMgr::wait_for_room(ChunkId wanted, Tier tier, const Error& refused) {
  if (!chunks_.memory().leaving(tier)) return full(wanted, tier, refused);
  CASTOR_ASSIGN(const std::uint64_t freed_bytes, wait_for_leaving(tier));
  if (freed_bytes == 0) return full(wanted, tier, refused);
  return {};
}

std::vector<EvictionCandidate> StatefulTensorMgr::candidates(Tier tier, ChunkId wanted) const {
  std::vector<EvictionCandidate> found;
  const bool bottom = tier == Tier::host && !chunks_.has_spill();
  for (ChunkId id = 0; id < chunks_.n_chunks(); ++id) {
    const Chunk& chunk = chunks_.chunk(id);
    const ChunkCopy& copy = chunk.at(tier);
    if (id == wanted || !copy.current || copy.leaving || copy.n_pins > 0) continue;
    if (bottom && !chunk.clean(tier)) continue;
    const auto& uses = last_use_[index(tier)];
    const std::uint64_t next_use =
        steady() ? follower().trace().distance(id, tier, follower().n_begun()) : AccessTrace::kNever;
    found.push_back({id, next_use, id < uses.size() ? uses[id] : 0, chunk.n_bytes, chunk.clean(tier),
                     !holds(wanted_places(id), tier), !copy.arrived.ready(), chunk.kind == ChunkKind::state});
  }
  return found;
}

/// By the plan; where there is none yet, by its owner.
Places StatefulTensorMgr::wanted_places(ChunkId id) const {
  const std::vector<Places>& wanted = course_->replay && steady() ? wanted_ : rest_;
  return id < wanted.size() ? wanted[id] : kAnywhere;  // others were added since
}

Error StatefulTensorMgr::full(ChunkId wanted, Tier tier, const Error& refused) const {
  chunks_.memory().trim(tier);
  const Budget& budget = this->budget(tier);
  const std::uint64_t n_bytes = chunks_.chunk(wanted).n_bytes;
  if (n_bytes <= budget.free_bytes()) return refused;  // the machine has less than the budget allows
  const std::uint64_t needed_bytes = budget.used_bytes() + n_bytes;
  std::string way_out = std::string("raise --") + name(tier) + "-budget to " + format_bytes_up(needed_bytes);
  if (tier == Tier::host && !chunks_.has_spill()) way_out += " or name a folder with --nvme";
  return {ErrorKind::does_not_fit, std::string(name(tier)) + " tier: " + chunks_.chunk(wanted).label + " needs " +
                                       format_bytes(n_bytes) + ", nothing more can be evicted under the " +
                                       format_bytes(budget.limit_bytes()) + " budget (" +
                                       format_bytes(budget.used_bytes()) + " in use); " + way_out};
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/stateful_tensor_mgr.h>

#include <algorithm>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

/// How far ahead of the present moment chunks are fetched into room that is free.
constexpr std::uint64_t kPrefetchMoments = 8;

/// How far ahead others are evicted for it. Eviction before time costs hits: what will be the best victim then is still
/// needed now.
constexpr std::uint64_t kEvictingMoments = 2;

/// The moments of an iteration that are recorded. One with more (evaluation with no step in sight) is none that
/// repeats.
constexpr std::uint64_t kMostMoments = std::uint64_t{1} << 18;

}  // namespace

StatefulTensorMgr::StatefulTensorMgr(ChunkManager& chunks, const Budget& device, const Budget& host, Stream& compute,
                                     Timeline& timeline)
    : chunks_(chunks), device_(device), host_(host), compute_(compute), timeline_(timeline) {}

Result<void> StatefulTensorMgr::begin(Moment moment, std::span<const Need> needs) {
  for (const Tier tier : {Tier::device, Tier::host}) CASTOR_TRY(chunks_.reap(tier, false));
  follow(moment, needs);
  std::size_t n_pinned = 0;
  Result<void> outcome;
  for (; outcome.ok() && n_pinned < needs.size(); ++n_pinned) {
    chunks_.pin(needs[n_pinned].chunk, needs[n_pinned].tier);
    outcome = prepare(needs[n_pinned]);
  }
  for (const Need& need : needs)
    if (outcome.ok() && need.access != Access::overwrite) outcome = wait_for(need.chunk, need.tier);
  if (outcome.ok()) outcome = prefetch();
  if (!outcome.ok()) abandon(needs.first(n_pinned));
  return outcome;
}

/// Undoes the begin of a moment that failed; memory for contents that will not come goes back.
void StatefulTensorMgr::abandon(std::span<const Need> needs) {
  for (const Need& need : needs) {
    chunks_.unpin(need.chunk, need.tier);
    const ChunkCopy& copy = chunks_.chunk(need.chunk).at(need.tier);
    if (!copy.current && copy.n_pins == 0)
      (void)chunks_.release(need.chunk, need.tier);  // has nothing to write below, so cannot fail
  }
}

/// Brings one need to its tier, or makes fresh memory for it.
Result<void> StatefulTensorMgr::prepare(const Need& need) {
  if (need.access == Access::overwrite) {
    CASTOR_TRY(open(need.chunk, need.tier));
    return {};
  }
  CASTOR_TRY(bring(need.chunk, need.tier));
  if (need.access == Access::read) return {};
  CASTOR_TRY(chunks_.edit(need.chunk, need.tier));
  return {};
}

void StatefulTensorMgr::end(std::span<const Need> needs) {
  for (const Need& need : needs) {
    chunks_.unpin(need.chunk, need.tier);
    if (need.access != Access::read) chunks_.written(need.chunk, need.tier);
  }
}

void StatefulTensorMgr::follow(Moment moment, std::span<const Need> needs) {
  const std::uint64_t position = recording_.n_moments();
  on_trace_ = on_trace_ && position < trace_.n_moments() && trace_.moment(position) == moment;
  if (position < kMostMoments) recording_.add(moment, needs);
  ++clock_;
  unit_ = moment.kind == MomentKind::forward || moment.kind == MomentKind::backward ? moment.id : kNoUnit;
  for (auto& uses : last_use_) uses.resize(chunks_.n_chunks(), 0);
  for (const Need& need : needs) last_use_[index(need.tier)][need.chunk] = clock_;
}

void StatefulTensorMgr::end_iteration() {
  std::swap(trace_, recording_);
  recording_.clear();
  on_trace_ = true;
}

void StatefulTensorMgr::forget_trace() {
  trace_.clear();
  recording_.clear();
  on_trace_ = true;
}

/// Starts what it takes to have the chunk's contents in `tier`, hop by hop, evicting where a tier is full.
Result<void> StatefulTensorMgr::bring(ChunkId id, Tier tier) {
  const Chunk& chunk = chunks_.chunk(id);
  if (chunk.at(tier).current) return keep(id, tier);
  if (tier == Tier::host && !chunk.resident(Tier::device)) return hop(id, tier);
  const Tier source = tier == Tier::device ? Tier::host : Tier::device;
  if (tier == Tier::device) CASTOR_TRY(bring(id, Tier::host));
  chunks_.pin(id, source);  // should not be the victim that makes room for its own next hop
  auto outcome = hop(id, tier);
  chunks_.unpin(id, source);
  const bool tight = tier == Tier::device && !outcome.ok() && outcome.error().kind == ErrorKind::does_not_fit;
  if (!tight) return outcome;
  // The victim above needs the very room that the source holds: room above first, then the source once more.
  CASTOR_TRY(open(id, tier));
  CASTOR_TRY(bring(id, Tier::host));
  return keep(id, tier);
}

/// One hop from a neighbouring tier, evicting until there is room for it.
Result<void> StatefulTensorMgr::hop(ChunkId id, Tier tier) {
  auto outcome = keep(id, tier);
  while (!outcome.ok() && outcome.error().kind == ErrorKind::does_not_fit) {
    CASTOR_TRY(make_room(id, tier, outcome.error()));
    outcome = keep(id, tier);
  }
  return outcome;
}

Result<void> StatefulTensorMgr::keep(ChunkId id, Tier tier) {
  CASTOR_TRY(chunks_.fetch(id, tier));
  return {};
}

Result<BufferView> StatefulTensorMgr::open(ChunkId chunk, Tier tier) {
  while (true) {
    auto opened = chunks_.open(chunk, tier);
    if (opened.ok() || opened.error().kind != ErrorKind::does_not_fit) return opened;
    CASTOR_TRY(make_room(chunk, tier, opened.error()));
  }
}

Result<BufferView> StatefulTensorMgr::look(ChunkId chunk, Tier tier) {
  CASTOR_TRY(bring(chunk, tier));
  CASTOR_TRY(wait_for(chunk, tier));
  return chunks_.chunk(chunk).at(tier).buffer.view();
}

Result<BufferView> StatefulTensorMgr::edit(ChunkId chunk, Tier tier) {
  if (!chunks_.chunk(chunk).has_contents()) return open(chunk, tier);
  CASTOR_TRY(bring(chunk, tier));
  return chunks_.edit(chunk, tier);
}

Result<void> StatefulTensorMgr::push_down(ChunkId id, Tier tier) {
  const Chunk& chunk = chunks_.chunk(id);
  if (!chunk.resident(tier) || chunk.at(tier).n_pins > 0) return {};
  if (tier == Tier::device && !chunk.clean(tier)) CASTOR_TRY(bring(id, Tier::host));
  return chunks_.release(id, tier);
}

/// The thread waits for a copy on the host; the compute stream (which may be the thread) waits for one on the device.
Result<void> StatefulTensorMgr::wait_for(ChunkId chunk, Tier tier) {
  const Event arrived = chunks_.chunk(chunk).at(tier).arrived;
  if (arrived.ready()) return arrived.wait();
  const std::uint64_t start_ns = timeline_.now_ns();
  auto outcome = tier == Tier::device ? compute_.wait(arrived) : arrived.wait();
  count_wait(start_ns);
  return outcome;
}

void StatefulTensorMgr::count_wait(std::uint64_t start_ns) {
  const std::uint64_t end_ns = timeline_.now_ns();
  timeline_.record({Lane::wait, unit_, start_ns, end_ns, 0});
  wait_ns_ += end_ns - start_ns;
}

/// Frees memory in `tier` after an allocation was `refused`, or says why it cannot: what has finished leaving first,
/// then a chunk that the policy names, then what is still leaving.
Result<void> StatefulTensorMgr::make_room(ChunkId wanted, Tier tier, const Error& refused) {
  CASTOR_ASSIGN(const std::uint64_t freed_bytes, chunks_.reap(tier, false));
  if (freed_bytes > 0) return {};
  const auto could_go = candidates(tier, wanted);
  if (!could_go.empty()) {
    const auto& policy = steady() ? *farthest_ : *oldest_;
    CASTOR_TRY(push_down(could_go[policy.choose(could_go)].chunk, tier));
  } else if (!chunks_.leaving(tier)) {
    return full(wanted, tier, refused);
  }
  const std::uint64_t start_ns = timeline_.now_ns();
  CASTOR_ASSIGN(const std::uint64_t freed_after_wait_bytes, chunks_.reap(tier, true));
  count_wait(start_ns);
  if (freed_after_wait_bytes == 0) return full(wanted, tier, refused);
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
    const std::uint64_t next_use = steady() ? trace_.distance(id, tier, recording_.n_moments()) : AccessTrace::kNever;
    found.push_back({id, next_use, id < uses.size() ? uses[id] : 0, chunk.n_bytes, chunk.clean(tier)});
  }
  return found;
}

Error StatefulTensorMgr::full(ChunkId wanted, Tier tier, const Error& refused) const {
  const Budget& budget = this->budget(tier);
  const std::uint64_t n_bytes = chunks_.chunk(wanted).n_bytes;
  if (n_bytes <= budget.free_bytes()) return refused;  // the machine has less than the budget allows
  const std::uint64_t needed_bytes = budget.used_bytes() + n_bytes;
  std::string way_out = std::string("raise --") + name(tier) + "-budget to " + format_bytes(needed_bytes);
  if (tier == Tier::host && !chunks_.has_spill()) way_out += " or name a folder with --nvme";
  return {ErrorKind::does_not_fit, std::string(name(tier)) + " tier: " + chunks_.chunk(wanted).label + " needs " +
                                       format_bytes(n_bytes) + ", nothing more can be evicted under the " +
                                       format_bytes(budget.limit_bytes()) + " budget (" +
                                       format_bytes(budget.used_bytes()) + " in use); " + way_out};
}

/// Starts what the next moments need, nearest first, until a tier has no room that is free or needed later than that.
Result<void> StatefulTensorMgr::prefetch() {
  if (!steady()) return {};
  const std::uint64_t now = recording_.n_moments();
  std::array<bool, 2> closed = {false, false};
  for (std::uint64_t ahead = 0; ahead < std::min(kPrefetchMoments, trace_.n_moments()); ++ahead) {
    for (const Need& need : trace_.needs((now + ahead) % trace_.n_moments())) {
      bool& tier_closed = closed[index(need.tier)];
      if (tier_closed || need.access == Access::overwrite) continue;
      CASTOR_ASSIGN(const bool started, prefetch_one(need, ahead));
      tier_closed = !started;
    }
  }
  return {};
}

/// Starts one fetch if that takes no waiting; false where there is no room for it.
Result<bool> StatefulTensorMgr::prefetch_one(const Need& need, std::uint64_t distance) {
  const Chunk& chunk = chunks_.chunk(need.chunk);
  if (chunk.at(need.tier).current || chunk.pinned() || !chunk.has_contents()) return true;
  const Tier below = need.tier == Tier::device ? Tier::host : Tier::nvme;
  if (!chunk.resident(below) && !(need.tier == Tier::host && chunk.resident(Tier::device)))
    return prefetch_one({need.chunk, Tier::host, Access::read}, distance);
  if (need.tier == Tier::device && !chunk.at(Tier::host).arrived.ready()) return true;  // its first hop is under way
  while (true) {
    auto fetched = chunks_.fetch(need.chunk, need.tier);
    if (fetched.ok()) return true;
    if (fetched.error().kind != ErrorKind::does_not_fit) return fetched.error();
    CASTOR_ASSIGN(const std::uint64_t freed_bytes, chunks_.reap(need.tier, false));
    if (freed_bytes > 0) continue;
    const auto could_go = candidates(need.tier, need.chunk);
    if (could_go.empty() || distance >= kEvictingMoments) return false;
    const auto& victim = could_go[farthest_->choose(could_go)];
    if (victim.next_use <= distance) return false;
    if (need.tier == Tier::device && !victim.clean && !chunks_.chunk(victim.chunk).resident(Tier::host)) return false;
    CASTOR_TRY(chunks_.release(victim.chunk, need.tier));
    if (!chunks_.chunk(victim.chunk).at(need.tier).quiet())
      return false;  // its write has started; the room comes later
  }
}

}  // namespace castor

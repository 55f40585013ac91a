// SPDX-License-Identifier: Apache-2.0
#include <castor/mover/stateful_tensor_mgr.h>

#include <utility>

#include "chunk_fetcher.h"
#include "eviction_policy.h"
#include "room_maker.h"
#include "waits.h"

namespace castor {
namespace {

/// The guide of a mover without a Scheduler: no iteration, no trace.
class NoGuide final : public MoveGuide {
 public:
  bool in_iteration() const override { return false; }
  bool on_trace() const override { return false; }
  std::uint64_t next_use(ChunkId, Tier) const override { return AccessTrace::kNever; }
  void accessed(const Need&) override {}
  void arriving(ChunkId, std::uint64_t) override {}
  void discarded(ChunkId) override {}
  void wait_begins() override {}
  void wait_ends() override {}
};

}  // namespace

StatefulTensorMgr::StatefulTensorMgr(const Parts& parts)
    : parts_(parts),
      no_guide_(std::make_unique<NoGuide>()),
      planned_(std::make_unique<PlannedMoves>(parts.chunks)),
      waits_(std::make_unique<Waits>(Waits::Parts{.chunks = parts.chunks,
                                                  .planned = *planned_,
                                                  .compute = parts.compute,
                                                  .timeline = parts.timeline,
                                                  .limits = parts.wait_limits},
                                     *no_guide_)),
      policy_(std::make_unique<EvictionPolicy>(parts.chunks, *planned_)),
      room_(std::make_unique<RoomMaker>(
          RoomMaker::Parts{.chunks = parts.chunks,
                           .planned = *planned_,
                           .waits = *waits_,
                           .policy = *policy_,
                           .device = parts.device,
                           .host = parts.host,
                           .push_down = [this](ChunkId id, Tier tier) { return fetcher_->push_down(id, tier); }})),
      fetcher_(std::make_unique<ChunkFetcher>(
          ChunkFetcher::Parts{.chunks = parts.chunks, .waits = *waits_, .room = *room_})) {
  parts.chunks.wait_by(
      [this](const Event& work, const std::string& awaited) { return waits_->for_host(work, awaited); });
}

StatefulTensorMgr::~StatefulTensorMgr() { parts_.chunks.wait_by({}); }

Result<void> StatefulTensorMgr::begin(std::span<const Need> needs, Beside* beside, UnitId unit) {
  for (const Need& need : needs)
    if (beside != nullptr && need.tier != Tier::host)
      throw ContractViolation(parts_.chunks.chunk(need.chunk).label + ": needed on the device beside the thread");
  waits_->set_unit(unit);
  policy_->begin_moment();
  for (const Need& need : needs) policy_->note_use(need.chunk, need.tier);
  for (const Tier tier : {Tier::device, Tier::host}) CASTOR_TRY(parts_.chunks.reap(tier));
  planned_->advance();
  std::size_t n_pinned = 0;
  Result<void> outcome;
  for (; outcome.ok() && n_pinned < needs.size(); ++n_pinned) {
    parts_.chunks.pin(needs[n_pinned].chunk, needs[n_pinned].tier);
    outcome = prepare(needs[n_pinned]);
  }
  for (const Need& need : needs)
    if (outcome.ok() && need.access != Access::overwrite) outcome = await(need, beside);
  if (outcome.ok()) outcome = planned_->start_fetches();
  if (!outcome.ok()) abandon(needs.first(n_pinned));
  return outcome;
}

/// Starts the fetch of one need to its tier, or makes fresh memory for it.
Result<void> StatefulTensorMgr::prepare(const Need& need) {
  if (need.access == Access::overwrite) {
    CASTOR_TRY(fetcher_->open(need.chunk, need.tier));
    return {};
  }
  CASTOR_TRY(fetcher_->bring(need.chunk, need.tier));
  if (need.access == Access::read) return {};
  CASTOR_TRY(parts_.chunks.edit(need.chunk, need.tier));
  return {};
}

/// Has the thread, the compute stream or the lane beside them wait for a need, whichever does the work. A failed
/// arrival is an error of begin.
Result<void> StatefulTensorMgr::await(const Need& need, Beside* beside) {
  if (beside == nullptr) return waits_->for_arrival(need.chunk, need.tier, true);
  const Event& arrived = parts_.chunks.chunk(need.chunk).at(need.tier).arrived;
  if (arrived.ready()) return arrived.wait();
  beside->after.push_back(arrived);
  return {};
}

/// Undoes the begin of a moment that failed, and releases memory that was to receive contents.
void StatefulTensorMgr::abandon(std::span<const Need> needs) {
  for (const Need& need : needs) {
    parts_.chunks.unpin(need.chunk, need.tier);
    fetcher_->give_up(need.chunk, need.tier);
  }
}

void StatefulTensorMgr::end(std::span<const Need> needs, const Event& done) {
  for (const Need& need : needs) {
    parts_.chunks.unpin(need.chunk, need.tier);
    if (need.access != Access::read)
      parts_.chunks.written(need.chunk, need.tier, done);
    else if (done.state() != nullptr)
      parts_.chunks.read_until(need.chunk, need.tier, done);
  }
}

Result<void> StatefulTensorMgr::join_compute() { return waits_->for_compute(); }

Result<void> StatefulTensorMgr::join_host(const Event& work, const std::string& awaited) {
  return waits_->for_host(work, awaited);
}

Result<void> StatefulTensorMgr::join_host(const std::function<bool(std::chrono::nanoseconds)>& ended_within,
                                          const std::string& awaited) {
  return waits_->until(ended_within, awaited);
}

void StatefulTensorMgr::guide_by(MoveGuide& guide) { waits_->guide_by(guide); }

MoveGuide& StatefulTensorMgr::guide() const { return waits_->guide(); }

void StatefulTensorMgr::tell(const Need& need) {
  if (n_aside_ == 0) guide().accessed(need);
}

Result<BufferView> StatefulTensorMgr::open(ChunkId chunk, Tier tier) {
  CASTOR_ASSIGN(const BufferView opened, fetcher_->open(chunk, tier));
  tell({chunk, tier, Access::overwrite});
  return opened;
}

Result<BufferView> StatefulTensorMgr::look(ChunkId chunk, Tier tier) {
  CASTOR_TRY(fetcher_->bring(chunk, tier));
  CASTOR_TRY(waits_->for_arrival(chunk, tier));
  tell({chunk, tier, Access::read});
  return parts_.chunks.chunk(chunk).at(tier).buffer.view();
}

Result<BufferView> StatefulTensorMgr::hold(ChunkId chunk, Tier tier) {
  CASTOR_ASSIGN(const BufferView view, look(chunk, tier));
  parts_.chunks.pin(chunk, tier);
  return view;
}

void StatefulTensorMgr::unhold(ChunkId chunk, Tier tier) {
  tell({chunk, tier, Access::read});
  parts_.chunks.unpin(chunk, tier);
}

Result<BufferView> StatefulTensorMgr::edit(ChunkId chunk, Tier tier) {
  if (!parts_.chunks.chunk(chunk).has_contents()) return open(chunk, tier);
  CASTOR_TRY(fetcher_->bring(chunk, tier));
  CASTOR_ASSIGN(const BufferView view, parts_.chunks.edit(chunk, tier));
  tell({chunk, tier, Access::update});
  return view;
}

void StatefulTensorMgr::arriving(ChunkId chunk, Tier tier, std::uint64_t n_bytes, Event event) {
  if (tier == Tier::host) guide().arriving(chunk, n_bytes);
  parts_.chunks.arriving(chunk, tier, n_bytes, std::move(event));
}

Result<void> StatefulTensorMgr::discard(ChunkId chunk) {
  CASTOR_TRY(parts_.chunks.discard(chunk));
  guide().discarded(chunk);
  return {};
}

Result<void> StatefulTensorMgr::push_down(ChunkId chunk, Tier tier) { return fetcher_->push_down(chunk, tier); }

Result<void> StatefulTensorMgr::write_back(std::span<const ChunkId> chunks) {
  const Aside aside(*this);
  Result<void> outcome;
  for (const ChunkId id : chunks)
    if (outcome.ok() && !parts_.chunks.chunk(id).nvme_current) outcome = start_write_back(id);
  auto written = waits_->for_write_back(chunks);
  return outcome.ok() ? written : outcome;
}

/// Pins the host copy until the write has taken it, whatever else moves meanwhile. A copy that was made for the write
/// is released afterwards.
Result<void> StatefulTensorMgr::start_write_back(ChunkId id) {
  const bool was_on_host = parts_.chunks.chunk(id).resident(Tier::host);
  parts_.chunks.pin(id, Tier::host);
  const auto there = look(id, Tier::host);
  const auto started = there.ok() ? parts_.chunks.below().write_back(id) : there.error();
  parts_.chunks.unpin(id, Tier::host);
  return started.ok() && !was_on_host ? parts_.chunks.release(id, Tier::host) : started;
}

double StatefulTensorMgr::wait_seconds() const { return waits_->total_seconds(); }

}  // namespace castor

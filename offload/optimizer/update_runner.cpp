// SPDX-License-Identifier: Apache-2.0
#include "update_runner.h"

#include <optional>

namespace castor {
namespace {

/// A span of the timeline from the first begin() of any thread until its last owner releases it.
class SharedSpan {
 public:
  SharedSpan(Timeline& timeline, const SpanRecord& what) : timeline_(timeline), what_(what) {}
  ~SharedSpan() {
    what_.start_ns = start_ns_;
    what_.end_ns = timeline_.now_ns();
    if (what_.start_ns > 0) timeline_.record(what_);
  }
  SharedSpan(const SharedSpan&) = delete;
  SharedSpan& operator=(const SharedSpan&) = delete;

  void begin() {
    std::uint64_t not_begun = 0;
    if (start_ns_ == 0) start_ns_.compare_exchange_strong(not_begun, timeline_.now_ns());
  }

 private:
  Timeline& timeline_;
  SpanRecord what_;
  std::atomic<std::uint64_t> start_ns_ = 0;
};

}  // namespace

Result<std::unique_ptr<UpdateRunner>> UpdateRunner::make(const Parts& parts) {
  CASTOR_ASSIGN(UpdateKernels kernels, UpdateKernels::make(parts.inputs.device));
  return std::unique_ptr<UpdateRunner>(new UpdateRunner(parts, std::move(kernels)));
}

Result<void> UpdateRunner::update(PayloadId chunk, StepTerms terms, UpdateJournal& journal) {
  CASTOR_TRY(parts_.inputs.gradients.finish_sum(chunk));
  TrustMeasures::OfChunk measures(parts_.trust, chunk, terms);
  CASTOR_TRY(measures.measure_cut_tensors());
  for (const TileId tile : parts_.inputs.states.shape(chunk).tiles())
    CASTOR_TRY(update_tile(chunk, tile, terms, measures, journal));
  return {};
}

Result<void> UpdateRunner::update_tile(PayloadId chunk, TileId tile, StepTerms terms, TrustMeasures::OfChunk& measures,
                                       UpdateJournal& journal) {
  const StateLayout& states = parts_.inputs.states;
  const auto needs = needs_of(chunk, tile, terms.options, journal.keeps_old());
  Beside others{parts_.team};
  const Moment moment = {MomentKind::update, number(chunk)};
  CASTOR_TRY(parts_.scheduler.begin(moment, needs, runs_beside(chunk) ? &others : nullptr));
  auto begun = measures.before_update(tile, others.after);
  if (begun.ok()) begun = journal.begin_tile(tile);
  if (!begun.ok()) {
    parts_.scheduler.end(needs);
    return begun;
  }
  TileUpdate update = update_of(chunk, tile, terms, journal);
  if (runs_beside(chunk)) {
    run_beside(chunk, tile, std::move(update), std::move(others.after), needs, journal);
    return {};
  }
  const auto outcome = parts_.inputs.updates_on_gpu(chunk)
                           ? run_on_gpu(chunk, tile, update)
                           : start(chunk, tile, std::move(update), std::move(others.after), journal).wait();
  parts_.scheduler.end(needs);
  CASTOR_TRY(outcome);
  if (states.home(chunk) != Tier::nvme) return {};
  return parts_.mover.push_down(states.state(chunk, tile), states.update_tier(chunk));
}

/// Weights need no fetch where the update replaces all of them without reading them.
std::array<Need, 3> UpdateRunner::needs_of(PayloadId chunk, TileId tile, const StepOptions& options,
                                           bool keeps_old) const {
  const TileInputs& inputs = parts_.inputs;
  const bool all_new =
      inputs.gradients.complete(chunk) && tile == TileId{} && !keeps_old && !inputs.reads_weights(chunk, options);
  const Tier tier = inputs.states.update_tier(chunk);
  return {Need{inputs.states.state(chunk, tile), tier, Access::update},
          Need{inputs.gradients.chunk(chunk), tier, Access::read},
          Need{inputs.states.payload(chunk), tier, all_new ? Access::overwrite : Access::update}};
}

/// The update of the tile at the places where its chunks are now. A tensor's counter goes up with its first part.
TileUpdate UpdateRunner::update_of(PayloadId chunk, TileId tile, StepTerms terms, UpdateJournal& journal) const {
  const TileInputs& inputs = parts_.inputs;
  TileUpdate update;
  for (const TilePart& part : inputs.states.parts_of(chunk, tile)) {
    if (!inputs.gradients.has(part.tensor)) continue;
    std::uint64_t& n_updates = inputs.states.n_updates(part.tensor);
    if (part.in_tensor == 0) {
      ++n_updates;
      journal.counted(part.tensor);
    }
    update.add(inputs.coefficients(part.tensor, n_updates, terms, parts_.trust.ratio(part.tensor)),
               inputs.arrays(chunk, tile, part), part.in_tile);
  }
  return update;
}

/// Queues the update to the team; the chunks that it changes arrive at its end.
void UpdateRunner::run_beside(PayloadId chunk, TileId tile, TileUpdate update, std::vector<Event> after,
                              std::span<const Need> needs, UpdateJournal& journal) {
  Event updated = start(chunk, tile, std::move(update), std::move(after), journal);
  Checksums checksums = start_checksums(chunk, tile, updated);
  journal.started(tile, updated);
  parts_.scheduler.end(needs, updated);
  parts_.inputs.chunks.checked(parts_.inputs.states.state(chunk, tile), std::move(checksums));
}

/// Queues the update of the tile to the team. Chunks that the next forward pass needs earlier are more urgent.
Event UpdateRunner::start(PayloadId chunk, TileId tile, TileUpdate update, std::vector<Event> after,
                          const UpdateJournal& journal) {
  HostTeam::Job job;
  job.urgency = number(chunk);
  job.after = std::move(after);
  job.n_parts = update.n_parts();
  job.touched_bytes = update.touched_bytes();
  const std::uint64_t n_bytes = parts_.inputs.chunks.chunk(parts_.inputs.states.state(chunk, tile)).n_bytes;
  const auto span = std::make_shared<SharedSpan>(  // owners: this, and the job while it runs
      parts_.timeline, SpanRecord{Lane::host_update, number(parts_.inputs.states.payload(chunk)), 0, 0, n_bytes});
  job.run = [this, span, cancelled = journal.cancelled(),
             update = std::move(update)](std::uint32_t part) -> Result<void> {
    if (cancelled && *cancelled) return {};
    span->begin();
    return update.run_part(host_kernels_, parts_.compute, part);
  };
  return parts_.team.add(std::move(job));
}

/// Queues the checksums of states that are written to a drive: the team computes them right after the update, while the
/// states are in its caches. `updated` becomes the event after which they are known. Returns null where the states
/// stay, or the drive's side computes them.
Checksums UpdateRunner::start_checksums(PayloadId chunk, TileId tile, Event& updated) {
  const Chunk& states = parts_.inputs.chunks.chunk(parts_.inputs.states.state(chunk, tile));
  const bool at_home_below = parts_.inputs.states.home(chunk) == Tier::nvme;
  const SpillStore* const spill = at_home_below ? parts_.inputs.chunks.below().spill() : nullptr;
  auto ends = spill ? spill->block_ends(states.n_bytes) : std::vector<std::uint64_t>();
  if (ends.empty()) return nullptr;
  const auto checksums = std::make_shared<std::vector<std::uint64_t>>(ends.size());  // owners: as Checksums
  HostTeam::Job job;
  job.urgency = number(chunk);
  job.after = {updated};
  job.n_parts = static_cast<std::uint32_t>(ends.size());
  const BufferView bytes = states.at(Tier::host).buffer.view();
  job.run = [spill, bytes, checksums, ends = std::move(ends)](std::uint32_t block) -> Result<void> {
    const std::uint64_t begin = block == 0 ? 0 : ends[block - 1];
    (*checksums)[block] = spill->checksum(bytes.part(begin, ends[block] - begin));
    return {};
  };
  updated = parts_.team.add(std::move(job));
  return checksums;
}

Result<void> UpdateRunner::run_on_gpu(PayloadId chunk, TileId tile, const TileUpdate& update) {
  auto begun = parts_.computed.begin();
  auto outcome = update.run(device_kernels_, parts_.compute);
  const std::uint64_t n_bytes = parts_.inputs.chunks.chunk(parts_.inputs.states.state(chunk, tile)).n_bytes;
  parts_.computed.end(std::move(begun),
                      {Lane::compute, number(parts_.inputs.states.payload(chunk)), 0, 0, n_bytes, Phase::update});
  return outcome;
}

}  // namespace castor

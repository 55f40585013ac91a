// SPDX-License-Identifier: Apache-2.0
#include "speculation_room.h"

#include <numeric>
#include <string>
#include <utility>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

std::uint64_t total_bytes(const std::vector<std::uint64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

}  // namespace

void tell_speculation(const EngineRooms& rooms, const StatePlacement& placement, const std::string& when) {
  if (placement.speculation_bytes == 0) return;
  rooms.log(CASTOR_LOG_INFO,
            format_bytes(placement.speculation_bytes) +
                " more of the host are taken, once, for updates that begin before the norm of the gradients is known" +
                when + "; speculative_updates=off takes none");
}

SpeculationRoom::SpeculationRoom(EngineRooms& rooms, Placer& placer)
    : rooms_(rooms),
      placer_(placer),
      stage_(rooms.pinner ? RoomStage::unasked : RoomStage::over),
      patience_(rooms.machine.pin_patience),
      next_(rooms) {}

SpeculationRoom::~SpeculationRoom() { *stop_ = true; }

Result<void> SpeculationRoom::after_step(bool wants_norm, bool may_begin) {
  if (stage_ == RoomStage::waiting || (stage_ == RoomStage::unasked && wants_norm && may_begin))
    begin();
  else if (stage_ == RoomStage::taking)
    check_taken();
  if (may_prepare() && may_begin) CASTOR_TRY(prepare());
  return stage_ == RoomStage::preparing ? adopt() : Result<void>();
}

/// True where the next step would be speculative with the memory that is there.
bool SpeculationRoom::may_prepare() const {
  return stage_ == RoomStage::taken && rooms_.optimizer->speculates_under(placement_);
}

/// After the warm-up, states that are at home on the device leave the host at their first update.
void SpeculationRoom::begin() {
  constexpr int kMostWaits = 4;
  if (homes_reached() || n_waited_++ == kMostWaits) return ask();
  stage_ = RoomStage::waiting;
}

bool SpeculationRoom::homes_reached() const {
  const StateLayout& states = rooms_.optimizer->states();
  for (const PayloadId chunk : rooms_.layout.chunks.ids()) {
    if (states.placement().states[chunk] != Tier::device) continue;
    for (const TileId tile : rooms_.layout.chunks[chunk].tiles())
      if (rooms_.chunks->chunk(states.state(chunk, tile)).resident(Tier::host)) return false;
  }
  return true;
}

void SpeculationRoom::ask() {
  if (!place()) return end();
  tell_speculation(rooms_, placement_, "; the next step waits for that");
  rooms_.calls.start();
  const std::vector<std::uint64_t> sizes = block_sizes();
  taking_ = std::make_unique<Draft<Result<void>>>(
      *rooms_.pinner, [&pool = rooms_.memory->host_pool(), sizes, stop = stop_]() -> Result<void> {
        for (const std::uint64_t n_bytes : sizes)
          if (!*stop) CASTOR_TRY(pool.set_aside(n_bytes));
        return {};
      });
  stage_ = RoomStage::taking;
}

/// Places with speculative updates; false where there are none.
bool SpeculationRoom::place() {
  auto placement = placer_.with_speculation();
  if (!placement.ok() || placement->speculation_bytes == 0) return false;
  placement_ = std::move(*placement);
  return true;
}

/// A block for each chunk that a speculative update writes, as UndoChunks will ask for them.
std::vector<std::uint64_t> SpeculationRoom::block_sizes() const {
  std::vector<std::uint64_t> sizes;
  const StateLayout& states = rooms_.optimizer->states();
  for (const PayloadId chunk : placement_.speculative.ids())
    if (placement_.speculative[chunk])
      for (const ChunkId written : states.written_by_update(chunk))
        sizes.push_back(rooms_.chunks->chunk(written).n_bytes);
  return sizes;
}

void SpeculationRoom::check_taken() {
  taking_->wait_for(std::exchange(patience_, {}));
  if (!taking_->ready()) return;
  const Result<void> taken = std::exchange(taking_, nullptr)->take();
  stage_ = RoomStage::taken;
  if (!taken.ok()) give_up(taken.error().message);
}

/// The ground of the rehearsal is an iteration that was planned: its plan goes on until the next one is made.
Result<void> SpeculationRoom::prepare() {
  const StepRecorder::Step& step = rooms_.calls.last();
  if (rooms_.scheduler->plan() == nullptr || step.script.empty()) return {};
  if (!place()) return drop_memory(), Result<void>();  // another share of the states may be streamed by now
  wanted_bytes_ = total_bytes(block_sizes());
  CASTOR_TRY(rooms_.scheduler->settle_times());
  next_.prepare(placement_, std::make_shared<const IterationRecord>(IterationRecord{rooms_.scheduler->trace(), step}));
  stage_ = RoomStage::preparing;
  return {};
}

Result<void> SpeculationRoom::adopt() {
  PoolResource& pool = rooms_.memory->host_pool();
  if (pool.reserve_bytes() < wanted_bytes_) return give_up("other chunks needed it"), Result<void>();
  CASTOR_ASSIGN(const NextPlacement::Progress progress, next_.advance());
  if (progress == NextPlacement::Progress::preparing) return {};
  pool.use_reserve();
  placer_.adopted_speculation(placement_.speculation_bytes);
  end();
  return {};
}

void SpeculationRoom::give_up(const std::string& reason) {
  rooms_.log(CASTOR_LOG_WARN, "no update begins before the norm of the gradients is known: " +
                                  format_bytes(placement_.speculation_bytes) + " of the host could not be had (" +
                                  reason + ")");
  next_.drop();
  drop_memory();
}

void SpeculationRoom::drop_memory() {
  (void)rooms_.pinner->run([&pool = rooms_.memory->host_pool()] { return pool.drop_reserve(), Result<void>(); });
  end();
}

/// The calls of steps are recorded on if shares of streams are to be tried.
void SpeculationRoom::end() {
  stage_ = RoomStage::over;
  if (rooms_.options.stream_optim_frac) rooms_.calls.stop();
}

}  // namespace castor

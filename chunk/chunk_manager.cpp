// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/chunk_manager.h>

#include <string>
#include <utility>

#include "copy_lanes.h"
#include "move_log.h"

namespace castor {
namespace {

/// The other end of the link between device and host.
Tier across_bus(Tier tier) { return tier == Tier::device ? Tier::host : Tier::device; }

/// True where the copy's bytes failed to arrive, but a tier next to it still has them.
bool can_arrive_again(const Chunk& chunk, Tier tier) {
  const Event& arrived = chunk.at(tier).arrived;
  if (!arrived.ready() || arrived.wait().ok()) return false;
  return tier == Tier::device ? chunk.resident(Tier::host) : chunk.resident(Tier::device) || chunk.nvme_current;
}

/// The HostWait that gives up no wait: the calls that need the end of the work wait for it themselves.
Result<void> wait_later(const Event&, const std::string&) { return {}; }

/// Waits for the readers of the host's copy.
Result<void> await_readers(const Chunk& chunk, const HostWait& wait) {
  for (const Event& reader : chunk.at(Tier::host).readers) CASTOR_TRY(wait(reader, chunk.label));
  return {};
}

/// Waits for the readers of a copy. Where one has failed, a copy elsewhere may lack the bytes that it should have
/// brought there, so this one becomes the only current one.
Result<void> settle_readers(ChunkManager& chunks, ChunkId id, Tier tier, ChunkCopy& copy) {
  const auto reads = copy.settle_readers();
  if (!reads.ok() && copy.current) {
    chunks.written(id, tier);
    copy.leaving = false;
  }
  return reads;
}

}  // namespace

ChunkManager::ChunkManager(const Places& places)
    : host_wait_(wait_later),
      log_(std::make_unique<MoveLog>(places.timeline)),
      lanes_(std::make_unique<CopyLanes>(places.compute, places.up, places.down, *log_)),
      memory_(chunks_, places.device, places.host, places.compute, places.device_release),
      below_(chunks_, places.spill, *log_, memory_, host_wait_) {}

ChunkManager::~ChunkManager() {
  for (Chunk& chunk : chunks_)
    for (ChunkCopy& copy : chunk.copies) {
      (void)copy.arrived.wait();
      (void)copy.settle_readers();
    }
  log_->record_ended();
}

void ChunkManager::wait_by(HostWait wait) { host_wait_ = wait ? std::move(wait) : wait_later; }

ChunkId ChunkManager::add(ChunkKind kind, std::uint64_t n_bytes, std::string label) {
  Chunk chunk;
  chunk.kind = kind;
  chunk.n_bytes = n_bytes;
  chunk.label = std::move(label);
  return chunks_.push_back(std::move(chunk));
}

Result<BufferView> ChunkManager::open(ChunkId id, Tier tier) {
  ChunkCopy& copy = chunks_.at(id).at(tier);
  if (copy.buffer) {
    if (tier == Tier::host) {
      CASTOR_TRY(host_wait_(copy.arrived, chunks_[id].label));
      CASTOR_TRY(await_readers(chunks_[id], host_wait_));
    }
    const auto settled = settle(id, tier);
    if (copy.current) CASTOR_TRY(settled);
  } else {
    CASTOR_TRY(memory_.allocate(id, tier));
  }
  copy.leaving = false;
  copy.checksums = nullptr;
  return copy.buffer.view();
}

Result<BufferView> ChunkManager::edit(ChunkId id, Tier tier) {
  ChunkCopy& copy = chunks_.at(id).at(tier);
  if (!copy.current) throw ContractViolation(chunks_[id].label + ": edited on " + name(tier) + ", where it is not");
  if (tier == Tier::host) CASTOR_TRY(await_readers(chunks_[id], host_wait_));
  copy.leaving = false;
  copy.checksums = nullptr;
  CASTOR_TRY(settle_readers(*this, id, tier, copy));
  return copy.buffer.view();
}

Result<void> ChunkManager::join(ChunkId id) {
  ChunkCopy& device = chunks_.at(id).at(Tier::device);
  if (!device.current) throw ContractViolation(chunks_[id].label + ": joined on the device, where it is not");
  return lanes_->join(device);
}

void ChunkManager::arriving(ChunkId id, Tier tier, std::uint64_t n_bytes, Event event) {
  if (tier == Tier::host) (void)log_->start(Lane::d2h, id, n_bytes, [&event] { return event; });
  written(id, tier, std::move(event));
}

Result<Event> ChunkManager::fetch(ChunkId id, Tier tier) {
  Chunk& chunk = chunks_.at(id);
  ChunkCopy& copy = chunk.at(tier);
  if (copy.current && !can_arrive_again(chunk, tier)) {
    copy.leaving = false;
    return copy.arrived;
  }
  const bool from_neighbour = chunk.resident(across_bus(tier));
  if (!from_neighbour && (tier == Tier::device || !chunk.nvme_current))
    throw ContractViolation(chunk.label + ": fetched to " + name(tier) + ", but no neighbouring tier has its contents");
  if (tier == Tier::device) CASTOR_TRY(host_wait_(chunk.at(Tier::host).arrived, chunk.label));
  CASTOR_TRY(open(id, tier));
  if (!from_neighbour) {
    below_.read(id);
  } else if (auto started =
                 tier == Tier::device ? lanes_->upload(id, chunk, memory_.slots_free()) : lanes_->download(id, chunk);
             !started.ok()) {
    memory_.drop(id, tier);
    return started.error();
  }
  copy.current = true;
  return copy.arrived;
}

void ChunkManager::exchange(ChunkId a, ChunkId b, Tier tier) {
  ChunkCopy &first = chunks_.at(a).at(tier), &second = chunks_.at(b).at(tier);
  if (chunks_[a].n_bytes != chunks_[b].n_bytes || !first.buffer || !second.buffer || first.leaving || second.leaving)
    throw ContractViolation(chunks_[a].label + ": exchanged on " + name(tier) + " with " + chunks_[b].label);
  std::swap(first.buffer, second.buffer);
  std::swap(first.arrived, second.arrived);
  std::swap(first.readers, second.readers);
  std::swap(first.checksums, second.checksums);
  std::swap(first.current, second.current);
}

void ChunkManager::written(ChunkId id, Tier tier, Event done) {
  Chunk& chunk = chunks_.at(id);
  ChunkCopy &copy = chunk.at(tier), &other = chunk.at(across_bus(tier));
  if (done.state() != nullptr) copy.arrived = std::move(done);
  copy.current = true;
  copy.checksums = nullptr;
  below_.outdate(id);
  if (other.buffer) memory_.drop(id, across_bus(tier));
  other.current = false;
}

Result<void> ChunkManager::release(ChunkId id, Tier tier) {
  Chunk& chunk = chunks_.at(id);
  ChunkCopy& copy = chunk.at(tier);
  if (!copy.buffer || copy.leaving) return {};
  if (copy.n_pins > 0) throw ContractViolation(chunk.label + ": released from " + name(tier) + " while pinned");
  if (!chunk.clean(tier)) {
    if (tier == Tier::device) throw ContractViolation(chunk.label + ": its only copy would leave the device");
    if (below_.spill() == nullptr)
      return Error{
          ErrorKind::usage,
          chunk.label + " does not fit in the host budget and there is no tier below; name a folder with `nvme`",
          "nvme"};
    CASTOR_TRY(below_.write_back(id));
  }
  memory_.drop(id, tier);
  return {};
}

Result<void> ChunkManager::settle(ChunkId id, Tier tier) {
  ChunkCopy& copy = chunks_.at(id).at(tier);
  const auto arrival = std::exchange(copy.arrived, {}).wait();
  if (!arrival.ok()) copy.current = false;
  const auto reads = settle_readers(*this, id, tier, copy);
  return arrival.ok() ? reads : arrival;
}

Result<void> ChunkManager::discard(ChunkId id) {
  CASTOR_TRY(below_.await_move(id));
  memory_.drop_all(id);
  below_.forget(id);
  return {};
}

Result<std::uint64_t> ChunkManager::reap(Tier tier) {
  log_->record_ended();
  return memory_.reap(tier, [this, tier](ChunkId id) { return settle(id, tier); });
}

Result<void> ChunkManager::drain() {
  Result<void> outcome;
  for (const ChunkId id : ids())
    for (const Tier tier : {Tier::device, Tier::host})
      if (auto settled = settle(id, tier); outcome.ok()) outcome = settled;
  log_->record_ended();
  return outcome;
}

const LinkBytes& ChunkManager::moved() const { return log_->moved(); }

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "lent_weights.h"

#include <numeric>
#include <set>
#include <span>

namespace castor {
namespace {

std::span<const std::uint32_t> params_of(const castor_access& access) { return {access.params, access.n}; }

}  // namespace

std::vector<ChunkId> LentWeights::chunks_of(const castor_access& access) const {
  std::set<PayloadId> chunks;
  for (const std::uint32_t param : params_of(access))
    if (const auto tensor = rooms_.place_of[ParamId{param}]) chunks.insert(rooms_.layout.tensors[*tensor].chunk);
  std::vector<ChunkId> payloads;
  for (const PayloadId chunk : chunks) payloads.push_back(rooms_.optimizer->states().payload(chunk));
  return payloads;
}

Result<void> LentWeights::bind_first() {
  if (bound_first_) return {};
  EngineRooms& r = rooms_;
  std::uint64_t held_bytes = 0;  // the budget also counts memory that is kept for reuse
  for (const ChunkId id : r.chunks->ids()) held_bytes += r.chunks->chunk(id).at(Tier::device).buffer.view().n_bytes;
  for (const PayloadId chunk : r.layout.chunks.ids()) {
    const ChunkId weights = r.optimizer->states().payload(chunk);
    if (!r.chunks->chunk(weights).resident(Tier::device)) held_bytes += r.chunks->chunk(weights).n_bytes;
    if (held_bytes > r.memory->device_chunks().limit_bytes()) break;
    CASTOR_TRY(r.mover->look(weights, Tier::device));
    for (const TensorId tensor : r.layout.chunks[chunk].tensors)
      CASTOR_TRY(r.bindings->bind(r.model.order[tensor], *r.chunks));
  }
  bound_first_ = true;
  return {};
}

Result<void> LentWeights::acquire(const castor_access& access) {
  CASTOR_TRY(OpenAccesses::check(access, rooms_.model.params.size()));
  for (const std::uint32_t param : params_of(access))
    if (access.mode == CASTOR_WRITE && rooms_.model.params[ParamId{param}].is_opaque())
      return opaque_is_read_only(rooms_.model.params[ParamId{param}].name);
  for (const std::uint32_t param : params_of(access))
    if (const auto tensor = rooms_.place_of[ParamId{param}])
      CASTOR_TRY(rooms_.optimizer->update_barrier().complete(rooms_.layout.tensors[*tensor].chunk));
  const std::vector<ChunkId> chunks = chunks_of(access);
  Budget& device = rooms_.memory->device_chunks();
  device.set_enough_bytes(bytes_beside_pinned(chunks));
  const auto held = hold(chunks);
  device.set_enough_bytes(0);
  CASTOR_TRY(held);
  if (auto bound = bind(access); !bound.ok()) return unhold(chunks), bound;
  open_.add(access);
  return {};
}

/// What `chunks` take of the device together with those that stay there meanwhile.
std::uint64_t LentWeights::bytes_beside_pinned(const std::vector<ChunkId>& chunks) const {
  std::set<ChunkId> there(chunks.begin(), chunks.end());
  for (const ChunkId id : rooms_.chunks->ids())
    if (rooms_.chunks->chunk(id).at(Tier::device).n_pins > 0) there.insert(id);
  return std::accumulate(there.begin(), there.end(), std::uint64_t{0},
                         [this](std::uint64_t sum, ChunkId id) { return sum + rooms_.chunks->chunk(id).n_bytes; });
}

/// Holds all of `chunks` on the device, or none.
Result<void> LentWeights::hold(const std::vector<ChunkId>& chunks) {
  const StatefulTensorMgr::Aside aside(*rooms_.mover);
  std::vector<ChunkId> held;
  for (const ChunkId chunk : chunks) {
    if (const auto there = rooms_.mover->hold(chunk, Tier::device); !there.ok()) return unhold(held), there.error();
    held.push_back(chunk);
  }
  return {};
}

void LentWeights::unhold(const std::vector<ChunkId>& chunks) {
  const StatefulTensorMgr::Aside aside(*rooms_.mover);
  for (const ChunkId chunk : chunks) rooms_.mover->unhold(chunk, Tier::device);
}

Result<void> LentWeights::bind(const castor_access& access) {
  for (const std::uint32_t param : params_of(access)) CASTOR_TRY(rooms_.bindings->bind(ParamId{param}, *rooms_.chunks));
  return {};
}

Result<void> LentWeights::release(const castor_access& access) {
  CASTOR_TRY(open_.find(access));
  const std::vector<ChunkId> chunks = chunks_of(access);
  if (access.mode == CASTOR_WRITE) {
    for (const ChunkId chunk : chunks) rooms_.chunks->written(chunk, Tier::device, rooms_.compute->record());
    CASTOR_TRY(take_written(access));
  }
  unhold(chunks);
  open_.remove(access);
  return {};
}

Result<void> LentWeights::take_written(const castor_access& access) {
  for (const std::uint32_t param : params_of(access))
    if (const auto tensor = rooms_.place_of[ParamId{param}]) CASTOR_TRY(rooms_.optimizer->io().take_weights(*tensor));
  return {};
}

}  // namespace castor

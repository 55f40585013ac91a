// SPDX-License-Identifier: Apache-2.0
// What goes into the states from outside and comes out of them: checkpoints, masters.
#include <castor/optimizer/offload_optimizer.h>

#include <string>
#include <utility>
#include <vector>

#include "early_updates.h"
#include "sliced_job.h"
#include <castor/rules/tile_states.h>

namespace castor {
namespace {

template <typename T>
T* behind(T* array, std::uint64_t n) {
  return array == nullptr ? nullptr : array + n;
}

}  // namespace

Result<void> OffloadOptimizer::read_master(std::uint32_t tensor, float* out) {
  TensorStates all;
  all.n = parts_.layout.tensors.at(tensor).numel;
  all.master = out;
  return read_states(tensor, all);
}

Result<void> OffloadOptimizer::check_states(std::uint32_t tensor, const TensorStates& states) {
  const TensorPlace& place = parts_.layout.tensors.at(tensor);
  if (states.first > place.numel || states.n > place.numel - states.first)
    return Error{ErrorKind::usage, "values " + std::to_string(states.first) + " to " +
                                       std::to_string(states.first + states.n) + " of a tensor of " +
                                       std::to_string(place.numel) + " were asked for"};
  if (early_->updated(place.chunk))
    return Error{ErrorKind::usage, "parameters were asked for between their early update and the end of their step"};
  CASTOR_TRY(take_back(place.chunk));
  CASTOR_TRY(make_pending(place.chunk));
  return whole();
}

/// What the tile has of `states`.
std::vector<OffloadOptimizer::Part> OffloadOptimizer::parts_in(std::uint32_t i, std::uint32_t tile,
                                                               std::uint32_t tensor, const TensorStates& states) const {
  std::vector<Part> parts = parts_of(i, tile);
  std::erase_if(parts, [tensor](const Part& part) { return part.tensor != tensor; });
  return within(parts, &Part::in_tensor, states.first, states.n);
}

Result<void> OffloadOptimizer::read_states(std::uint32_t tensor, TensorStates& states) {
  CASTOR_TRY(check_states(tensor, states));
  const TensorPlace& place = parts_.layout.tensors[tensor];
  const ChunkShape& shape = parts_.layout.chunks[place.chunk];
  states.n_updates = n_updates_[tensor];
  if (!shape.trainable) {
    CASTOR_ASSIGN(const BufferView weights, parts_.mover.look(payload_[place.chunk], Tier::host));
    const std::uint64_t first = place.offset + states.first;
    widen_weights(weights.data + first * size_bytes(shape.dtype), shape.dtype, states.master, states.n);
    return {};
  }
  for (std::uint32_t tile = 0; tile < shape.n_tiles(); ++tile)
    for (const Part& part : parts_in(place.chunk, tile, tensor, states))
      CASTOR_TRY(read_part(place.chunk, tile, part, states));
  return {};
}

/// The weights are looked at where the masters are split.
Result<void> OffloadOptimizer::read_part(std::uint32_t i, std::uint32_t tile, const Part& part,
                                         const TensorStates& states) {
  const DType dtype = parts_.layout.chunks[i].dtype;
  CASTOR_ASSIGN(const BufferView state, parts_.mover.hold(state_[i][tile], Tier::host));
  auto weights = parts_.format.splits(dtype) ? parts_.mover.look(payload_[i], Tier::host) : BufferView();
  const std::uint64_t at = part.in_tensor - states.first;
  Result<void> outcome;
  if (weights.ok()) {
    const TileStates from = states_at(i, tile, state.data);
    const std::byte* const weight = behind(weights->data, part.in_chunk * size_bytes(dtype));
    const auto read = [&](std::uint64_t first, std::uint64_t n) {
      from.read(part.in_tile + first, n, behind(weight, first * size_bytes(dtype)), behind(states.master, at + first),
                behind(states.exp_avg, at + first), behind(states.exp_avg_sq, at + first));
      return Result<void>();
    };
    outcome = parts_.team.add(sliced_job(part.numel, read)).wait();
  }
  parts_.mover.unhold(state_[i][tile], Tier::host);
  return weights.ok() ? outcome : weights.error();
}

Result<void> OffloadOptimizer::write_states(std::uint32_t tensor, const TensorStates& states) {
  CASTOR_TRY(check_states(tensor, states));
  const std::uint32_t i = parts_.layout.tensors[tensor].chunk;
  const ChunkShape& shape = parts_.layout.chunks[i];
  for (std::uint32_t tile = 0; tile < shape.n_tiles() && shape.trainable; ++tile)
    for (const Part& part : parts_in(i, tile, tensor, states)) {
      CASTOR_ASSIGN(const BufferView state, parts_.mover.hold(state_[i][tile], Tier::host));
      const auto outcome = write_part(i, tile, part, state.data, states);
      parts_.mover.unhold(state_[i][tile], Tier::host);
      CASTOR_TRY(outcome);
      CASTOR_TRY(send_states_home(i, tile));
    }
  if (!shape.trainable) CASTOR_TRY(write_frozen(tensor, states));
  n_updates_[tensor] = states.n_updates;
  parts_.mover.forget_trace();
  return send_payload_up(i);
}

Result<void> OffloadOptimizer::write_part(std::uint32_t i, std::uint32_t tile, const Part& part, std::byte* state,
                                          const TensorStates& states) {
  CASTOR_ASSIGN(const BufferView weights, edit_weights(i));
  CASTOR_TRY(parts_.mover.edit(state_[i][tile], Tier::host));
  const std::uint64_t width = size_bytes(parts_.layout.chunks[i].dtype);
  const std::uint64_t at = part.in_tensor - states.first;
  const TileStates to = states_at(i, tile, state);
  const auto write = [&](std::uint64_t first, std::uint64_t n) {
    to.write(part.in_tile + first, n, weights.data + (part.in_chunk + first) * width, states.master + at + first,
             behind<const float>(states.exp_avg, at + first), behind<const float>(states.exp_avg_sq, at + first));
    return Result<void>();
  };
  CASTOR_TRY(parts_.team.add(sliced_job(part.numel, write)).wait());
  parts_.chunks.written(state_[i][tile], Tier::host);
  parts_.chunks.written(payload_[i], Tier::host);
  return {};
}

Result<void> OffloadOptimizer::write_frozen(std::uint32_t tensor, const TensorStates& states) {
  const TensorPlace& place = parts_.layout.tensors[tensor];
  const DType dtype = parts_.layout.chunks[place.chunk].dtype;
  CASTOR_ASSIGN(const BufferView weights, edit_weights(place.chunk));
  round_weights(states.master, dtype, weights.data + (place.offset + states.first) * size_bytes(dtype), states.n);
  parts_.chunks.written(payload_[place.chunk], Tier::host);
  return {};
}

StateMap OffloadOptimizer::state_map() const {
  return {parts_.layout, parts_.format, registered_, n_updates_, payload_, state_, 0};
}

Result<void> OffloadOptimizer::write_back() {
  CASTOR_TRY(make_pending());
  CASTOR_TRY(whole());
  if (begun_)
    return Error{ErrorKind::usage, "parameters were to be kept between their early update and the end of their step"};
  CASTOR_TRY(parts_.mover.write_back(state_map().chunks()));
  return whole();
}

Result<void> OffloadOptimizer::take_spilled(std::vector<std::uint64_t> n_updates) {
  CASTOR_TRY(make_pending());
  CASTOR_TRY(whole());
  for (const ChunkId id : state_map().chunks()) parts_.chunks.below().spilled(id);
  for (std::uint32_t tensor = 0; tensor < n_updates_.size(); ++tensor) parts_.tensors.set(tensor, TensorState::hold);
  n_updates_ = std::move(n_updates);
  parts_.mover.forget_trace();
  return {};
}

/// They are there, and may be changed in part.
Result<BufferView> OffloadOptimizer::edit_weights(std::uint32_t i) {
  CASTOR_TRY(parts_.mover.look(payload_[i], Tier::host));
  return parts_.mover.edit(payload_[i], Tier::host);
}

}  // namespace castor

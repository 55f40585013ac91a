// SPDX-License-Identifier: Apache-2.0
// The team writes the first values of parameters and states, while the thread makes memory for the next tiles.
#include <castor/optimizer/offload_optimizer.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "sliced_job.h"
#include <castor/rules/tile_states.h>

namespace castor {
namespace {

/// Of one tile. What belongs to no tensor becomes 0; a frozen chunk has weights alone.
struct FirstValues {
  const OffloadOptimizer::Fill* fill;
  std::vector<TilePart> parts;
  std::optional<TileStates> states;
  std::byte* weights;  ///< of the whole chunk
  DType dtype;

  Result<void> write(std::uint64_t first, std::uint64_t n) const {
    if (states) states->clear(first, n);
    std::vector<float> values;
    for (const TilePart& part : within(parts, &TilePart::in_tile, first, n)) {
      values.resize(part.numel);
      CASTOR_TRY((*fill)(part.tensor, part.in_tensor, values));
      std::byte* const weight = weights + part.in_chunk * size_bytes(dtype);
      if (states)
        states->write(part.in_tile, part.numel, weight, values.data(), nullptr, nullptr);
      else
        round_weights(values.data(), dtype, weight, part.numel);
    }
    return {};
  }
};

/// Tiles that the thread is ahead of the team: it notices an interruption and a failure in time.
constexpr std::size_t kMostAhead = 8;

/// Waits for the first ones, until `n_left` are left.
Result<void> wait_for_first(std::deque<Event>& events, std::size_t n_left) {
  Result<void> outcome;
  for (; events.size() > n_left; events.pop_front())
    if (auto reached = events.front().wait(); outcome.ok()) outcome = std::move(reached);
  return outcome;
}

}  // namespace

Result<void> OffloadOptimizer::initialise(const Fill& fill, const Told& told) {
  std::deque<Event> filling;
  const auto started = start_filling(fill, told, filling);
  const auto ended = wait_for_first(filling, 0);
  parts_.scheduler.forget_trace();
  return started.ok() ? ended : started;
}

Result<void> OffloadOptimizer::start_filling(const Fill& fill, const Told& told, std::deque<Event>& filling) {
  std::uint64_t n_values = 0, n_done = 0;
  for (const ChunkShape& shape : parts_.layout.chunks) n_values += shape.numel;
  for (std::uint32_t i = 0; i < n_chunks(); ++i) {
    const ChunkShape& shape = parts_.layout.chunks[i];
    for (std::uint32_t tile = 0; tile < shape.n_tiles(); ++tile) {
      CASTOR_ASSIGN(const Event done, start_filling(i, tile, fill));
      filling.push_back(done);
      if (tile > 0) CASTOR_TRY(send_states_home(i, tile - 1));
      CASTOR_TRY(wait_for_first(filling, kMostAhead));
      if (parts_.interrupted())
        return Error{ErrorKind::interrupted, "interrupted while the parameters were initialised"};
    }
    CASTOR_TRY(send_states_home(i, shape.n_tiles() - 1));
    CASTOR_TRY(send_payload_up(i));
    for (const std::uint32_t tensor : shape.tensors) parts_.tensors.set(tensor, TensorState::hold);
    n_done += shape.numel;
    told(static_cast<double>(n_done) / static_cast<double>(n_values));
  }
  return {};
}

/// Returns the event of its end; `fill` must outlive that.
Result<Event> OffloadOptimizer::start_filling(std::uint32_t i, std::uint32_t tile, const Fill& fill) {
  const ChunkShape& shape = parts_.layout.chunks[i];
  std::vector<Need> needs = {{payload_[i], Tier::host, tile == 0 ? Access::overwrite : Access::update}};
  if (shape.trainable) needs.push_back({state_[i][tile], Tier::host, Access::overwrite});
  Beside others{parts_.team};
  CASTOR_TRY(parts_.scheduler.begin({MomentKind::update, i}, needs, &others));
  const auto data = [this](ChunkId id) { return parts_.chunks.chunk(id).at(Tier::host).buffer.data(); };
  FirstValues values{&fill, parts_of(i, tile), {}, data(payload_[i]), shape.dtype};
  if (shape.trainable) values.states.emplace(states_at(i, tile, data(state_[i][tile])));
  HostTeam::Job job =
      sliced_job(shape.tile(tile).numel,
                 [values = std::move(values)](std::uint64_t first, std::uint64_t n) { return values.write(first, n); });
  job.urgency = i;
  job.after = std::move(others.after);
  const Event done = parts_.team.add(std::move(job));
  parts_.scheduler.end(needs, done);
  return done;
}

/// So that the next ones find room on the host.
Result<void> OffloadOptimizer::send_states_home(std::uint32_t i, std::uint32_t tile) {
  if (!parts_.layout.chunks[i].trainable) return {};
  if (plan_.states[i] == Tier::device) CASTOR_TRY(parts_.mover.look(state_[i][tile], Tier::device));
  if (plan_.states[i] == Tier::nvme) return parts_.mover.push_down(state_[i][tile], Tier::host);
  return {};
}

/// Where there is nothing below the host and room above: then their copy on the host may go.
Result<void> OffloadOptimizer::send_payload_up(std::uint32_t i) {
  if (parts_.chunks.has_spill()) return {};
  const auto up = parts_.chunks.fetch(payload_[i], Tier::device);
  return up.ok() || up.error().kind == ErrorKind::does_not_fit ? Result<void>() : up.error();
}

}  // namespace castor

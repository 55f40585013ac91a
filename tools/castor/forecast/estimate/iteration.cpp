// SPDX-License-Identifier: Apache-2.0
#include "iteration.h"

#include <algorithm>
#include <array>

#include <castor/states/model_chunks.h>
#include <castor/states/tile_part.h>

namespace castor::estimate {
namespace {

class Recorder {
 public:
  Recorder(const shapes::Model& model, const ChunkLayout& layout, const Plan& placement, std::uint64_t input_bytes,
           const StateFormat& format)
      : model_(model),
        layout_(layout),
        placement_(placement),
        chunks_(chunks_by_unit(model, layout)),
        begun_(layout.chunks.size(), false),
        missing_bytes_(layout.chunks.size(), 0),
        updated_(layout.chunks.size(), false),
        format_(format) {
    for (const BytesByChunk& unit : chunks_)
      for (const auto& [chunk, n_bytes] : unit) missing_bytes_[chunk] += n_bytes;
    for (std::uint32_t i = 0; i < layout.chunks.size(); ++i) {
      const ChunkShape& shape = layout.chunks[i];
      payload_.push_back(add(shape.numel * size_bytes(shape.dtype)));
      auto& tiles = states_.emplace_back();
      for (std::uint32_t tile = 0; tile < shape.n_tiles(); ++tile)
        tiles.push_back(
            add(shape.tile(tile).numel * format.bytes_per_element(shape.dtype), rest_of_states(placement.states[i])));
      reads_weights_.push_back(format.splits(shape.dtype));
    }
    for (const ChunkShape& shape : layout.chunks) gradient_.push_back(add(shape.numel * size_bytes(shape.dtype)));
    for (std::uint64_t layer = 0; layer < model.layers && input_bytes > 0; ++layer) inputs_.push_back(add(input_bytes));
  }

  std::uint32_t block(std::uint64_t layer) const {
    return model_.first_block + static_cast<std::uint32_t>(layer) * model_.units_per_block;
  }

  /// Each block's input belongs to the moment before the block.
  void forward_keeping() {
    forward(0, model_.first_block);
    for (std::uint64_t layer = 0; layer < model_.layers; ++layer) {
      if (!inputs_.empty()) iteration_.trace.add_need({inputs_[layer], Tier::device, Access::overwrite});
      forward(block(layer), block(layer + 1));
    }
    forward(block(model_.layers), static_cast<std::uint32_t>(model_.units.size()));
  }

  void forward(std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t unit = first; unit < end; ++unit) {
      make_pending(unit);
      iteration_.trace.add({MomentKind::forward, unit}, needs(unit));
    }
  }

  /// Records the previous step's updates that were deferred to this unit.
  void make_pending(std::uint32_t unit) {
    for (const auto& [chunk, n_bytes] : chunks_of(unit))
      if (overlap_ && !early(chunk) && placement_.streamed[chunk] && !updated_[chunk]) update(chunk);
  }

  void backward(std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t unit = end; unit-- > first;) {
      iteration_.trace.add({MomentKind::backward, unit}, needs(unit));
      for (const auto& [chunk, n_bytes] : chunks_[unit]) gradient_arrives(chunk, n_bytes);
      for (const auto& [chunk, n_bytes] : chunks_[unit])
        if (early(chunk) && missing_bytes_[chunk] == 0 && placement_.states[chunk] != Tier::device) update(chunk);
    }
  }

  /// Blocks from the last to the first; each runs forward again before it runs backward.
  void backward_recomputing() {
    for (std::uint64_t layer = model_.layers; layer-- > 0;) {
      look_at_input(layer);
      forward(block(layer), block(layer + 1));
      backward(block(layer), block(layer + 1));
      look_at_input(layer);
      if (!inputs_.empty()) iteration_.trace.drop(inputs_[layer]);
    }
  }

  /// Gradients are measured on the device as they arrive; their sum is known when backward has ended.
  void norm() { iteration_.trace.add({MomentKind::norm, 0}, {}); }

  /// A chunk whose states are kept off the device is updated as soon as its gradients are complete, with `clip` only if
  /// it is speculative; otherwise a streamed chunk is updated before its next use.
  void set_overlap(bool overlap, bool clip) { overlap_ = overlap, clip_ = clip; }

  void set_measures_weights() { reads_weights_.assign(reads_weights_.size(), true); }
  void set_measures_direction() { measures_direction_ = true; }

  void updates() {
    for (std::uint32_t i = 0; i < n_chunks(); ++i)
      if (!updated_[i]) update(i);
  }

  Iteration take() { return std::move(iteration_); }

 private:
  ChunkId add(std::uint64_t n_bytes, Places rest = kAnywhere) {
    iteration_.n_bytes.push_back(n_bytes);
    iteration_.rest.push_back(rest);
    return static_cast<ChunkId>(iteration_.n_bytes.size() - 1);
  }

  void look_at_input(std::uint64_t layer) {
    if (!inputs_.empty()) iteration_.trace.add_need({inputs_[layer], Tier::device, Access::read});
  }

  Moment update_of(std::uint32_t i) const {
    return {MomentKind::update, i, /*beside=*/overlap_ && tier(i) == Tier::host};
  }

  bool early(std::uint32_t i) const { return overlap_ && (!clip_ || placement_.speculative[i]); }

  /// The first round over a chunk with tensors that span several tiles.
  void measure(std::uint32_t i) {
    const bool split = format_.splits(layout_.chunks[i].dtype);
    for (std::uint32_t tile = 0; tile < states_[i].size(); ++tile) {
      const auto parts = parts_of_tile(layout_, i, tile);
      if (std::none_of(parts.begin(), parts.end(), [this](const TilePart& part) { return is_cut(layout_, part); }))
        continue;
      std::vector<Need> needs = {{states_[i][tile], tier(i), Access::read}, {gradient_[i], tier(i), Access::read}};
      if (split) needs.push_back({payload_[i], tier(i), Access::read});
      iteration_.trace.add(update_of(i), needs);
      iteration_.measured.insert(states_[i][tile]);
    }
  }

  void update(std::uint32_t i) {
    if (measures_direction_) measure(i);
    const bool keeps_weights = reads_weights_[i] || (clip_ && early(i));
    for (const ChunkId tile : states_[i])
      iteration_.trace.add(
          update_of(i),
          std::array{Need{tile, tier(i), Access::update}, Need{gradient_[i], tier(i), Access::read},
                     Need{payload_[i], tier(i),
                          tile == states_[i].front() && !keeps_weights ? Access::overwrite : Access::update}});
    iteration_.trace.drop(gradient_[i]);
    updated_[i] = true;
  }

  std::uint32_t n_chunks() const { return static_cast<std::uint32_t>(payload_.size()); }
  Tier tier(std::uint32_t i) const { return placement_.update_tier(i); }

  const BytesByChunk& chunks_of(std::uint32_t unit) const { return chunks_[model_.units[unit].shares.value_or(unit)]; }

  std::vector<Need> needs(std::uint32_t unit) const {
    std::vector<Need> found;
    for (const auto& [chunk, n_bytes] : chunks_of(unit)) found.push_back({payload_[chunk], Tier::device, Access::read});
    return found;
  }

  void gradient_arrives(std::uint32_t chunk, std::uint64_t n_bytes) {
    iteration_.trace.add_need({gradient_[chunk], tier(chunk), begun_[chunk] ? Access::update : Access::overwrite});
    begun_[chunk] = true;
    missing_bytes_[chunk] -= n_bytes;
    if (tier(chunk) == Tier::host) iteration_.trace.add_arrival(gradient_[chunk], n_bytes);
  }

  const shapes::Model& model_;
  const ChunkLayout& layout_;
  const Plan& placement_;
  const std::vector<BytesByChunk> chunks_;    ///< by unit
  std::vector<bool> begun_;                   ///< by chunk: gradients have arrived
  std::vector<std::uint64_t> missing_bytes_;  ///< by chunk: of gradients that have not arrived
  std::vector<bool> updated_;                 ///< by chunk
  const StateFormat format_;
  std::vector<bool> reads_weights_;  ///< by chunk: the update reads the weights, for its masters or trust ratios
  bool overlap_ = false, clip_ = false, measures_direction_ = false;
  std::vector<ChunkId> payload_, gradient_;   ///< by chunk
  std::vector<std::vector<ChunkId>> states_;  ///< by chunk and tile
  std::vector<ChunkId> inputs_;               ///< by block; empty if block inputs are not in chunks
  Iteration iteration_;
};

}  // namespace

std::vector<BytesByChunk> chunks_by_unit(const shapes::Model& model, const ChunkLayout& layout) {
  std::vector<BytesByChunk> chunks;
  std::size_t tensor = 0;
  for (const shapes::Unit& unit : model.units) {
    BytesByChunk& own = chunks.emplace_back();
    for (const std::uint64_t numel : unit.numels) {
      const std::uint32_t chunk = layout.tensors[tensor++].chunk;
      own[chunk] += numel * size_bytes(layout.chunks[chunk].dtype);
    }
  }
  return chunks;
}

LargestUnit largest_unit(const shapes::Model& model, const ChunkLayout& layout) {
  const auto by_unit = chunks_by_unit(model, layout);
  LargestUnit largest;
  for (std::size_t unit = 0; unit < by_unit.size(); ++unit) {
    std::uint64_t n_bytes = 0;
    for (const auto& [chunk, own_bytes] : by_unit[unit])
      n_bytes += layout.chunks[chunk].numel * size_bytes(layout.chunks[chunk].dtype);
    if (n_bytes > largest.payload_bytes) largest = {model.units[unit].name, n_bytes};
  }
  return largest;
}

MoveProblem problem_of(const Iteration& iteration) {
  MoveProblem problem = castor::problem_of(iteration.trace, iteration.n_bytes);
  for (std::size_t id = 0; id < iteration.rest.size(); ++id) problem.chunks[id].rest = iteration.rest[id];
  return problem;
}

Iteration iteration_of(const shapes::Model& model, const ChunkLayout& layout, const Plan& placement,
                       const Recomputation& recomputation, const EndOfStep& end, const StateFormat& format) {
  Recorder recorder(model, layout, placement, recomputation.on ? recomputation.input_bytes : 0, format);
  recorder.set_overlap(end.overlap_updates, end.clip);
  if (end.measures_weights) recorder.set_measures_weights();
  if (end.measures_direction) recorder.set_measures_direction();
  recorder.forward_keeping();
  recorder.backward(recorder.block(model.layers), static_cast<std::uint32_t>(model.units.size()));
  if (recomputation.on)
    recorder.backward_recomputing();
  else
    recorder.backward(model.first_block, recorder.block(model.layers));
  recorder.backward(0, model.first_block);
  if (end.clip) recorder.norm();
  recorder.updates();
  return recorder.take();
}

}  // namespace castor::estimate

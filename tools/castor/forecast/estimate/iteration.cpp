// SPDX-License-Identifier: Apache-2.0
#include "iteration.h"

#include <set>

namespace castor::estimate {
namespace {

using Units = IdRange<UnitId>;

/// Writes the calls of a step.
class ScriptWriter {
 public:
  ScriptWriter(const shapes::Model& model, std::uint64_t input_bytes) : model_(model), input_bytes_(input_bytes) {
    std::size_t n_tensors = 0;
    for (const shapes::Unit& unit : model.units) {
      first_tensor_.push_back(id_at<TensorId>(n_tensors));
      n_tensors += unit.numels.size();
    }
  }

  /// The units of a block.
  Units block(std::uint64_t layer) const { return {block_start(layer), model_.units_per_block}; }
  Units all_blocks() const { return {model_.first_block, model_.layers * model_.units_per_block}; }
  Units before_blocks() const { return ids<UnitId>(index(model_.first_block)); }
  Units behind_blocks() const {
    const UnitId first = block_start(model_.layers);
    return {first, model_.units.size() - index(first)};
  }

  /// Each block's input is kept right before the block.
  void forward_keeping() {
    forward(before_blocks());
    for (std::uint64_t layer = 0; layer < model_.layers; ++layer) {
      about_input(Kind::keep, layer);
      forward(block(layer));
    }
    forward(behind_blocks());
    add(Kind::announce);
  }

  void backward(const Units& units) {
    for (const UnitId unit : units.backward()) {
      add(Kind::backward, number(unit));
      for (const TensorId tensor : IdRange(first_tensor_[unit], model_.units[unit].numels.size()))
        add(Kind::gradient, number(tensor));
      add(Kind::end_backward, number(unit));
    }
  }

  /// Blocks from the last to the first; each runs forward again before it runs backward.
  void backward_recomputing() {
    for (std::uint64_t layer = model_.layers; layer-- > 0;) {
      about_input(Kind::recall, layer);
      forward(block(layer));
      backward(block(layer));
      about_input(Kind::forget, layer);
    }
  }

  StepScript take() {
    add(Kind::end_of_backward);
    return std::move(script_);
  }

 private:
  using Kind = StepCall::Kind;

  UnitId block_start(std::uint64_t layer) const {
    return id_at<UnitId>(index(model_.first_block) + layer * model_.units_per_block);
  }

  void forward(const Units& units) {
    for (const UnitId unit : units) {
      add(Kind::forward, number(unit));
      add(Kind::end_forward, number(unit));
    }
  }

  void about_input(Kind kind, std::uint64_t layer) {
    if (input_bytes_ > 0) add(kind, static_cast<std::uint32_t>(layer), input_bytes_);
  }

  void add(Kind kind, std::uint32_t id = 0, std::uint64_t n_bytes = 0) { script_.push_back({kind, id, n_bytes}); }

  const shapes::Model& model_;
  const std::uint64_t input_bytes_;
  IndexedVector<UnitId, TensorId> first_tensor_;
  StepScript script_;
};

StepOptions options_of(const EndOfStep& end) {
  StepOptions options;
  if (end.measures_weights)
    options.update = SgdOptions{.trust_coefficient = 0.001};
  else if (end.measures_direction)
    options.update = LambOptions{};
  else
    options.update = AdamOptions{};
  if (end.clip) options.max_norm = 1;
  return options;
}

}  // namespace

IndexedVector<UnitId, std::vector<PayloadId>> chunks_by_unit(const shapes::Model& model, const ChunkLayout& layout) {
  IndexedVector<UnitId, std::vector<PayloadId>> chunks;
  std::size_t n_tensors = 0;
  for (const shapes::Unit& unit : model.units) {
    std::set<PayloadId> own;
    for (std::size_t i = 0; i < unit.numels.size(); ++i) own.insert(layout.tensors[id_at<TensorId>(n_tensors++)].chunk);
    chunks.push_back({own.begin(), own.end()});
    if (unit.shares) chunks.back() = chunks[*unit.shares];
  }
  return chunks;
}

LargestUnit largest_unit(const shapes::Model& model, const ChunkLayout& layout) {
  const auto by_unit = chunks_by_unit(model, layout);
  LargestUnit largest;
  for (const UnitId unit : by_unit.ids()) {
    std::uint64_t n_bytes = 0;
    for (const PayloadId chunk : by_unit[unit])
      n_bytes += layout.chunks[chunk].numel * size_bytes(layout.chunks[chunk].dtype);
    if (n_bytes > largest.payload_bytes) largest = {model.units[unit].name, n_bytes};
  }
  return largest;
}

StepScript script_of(const shapes::Model& model, const Recomputation& recomputation) {
  ScriptWriter writer(model, recomputation.on ? recomputation.input_bytes : 0);
  writer.forward_keeping();
  writer.backward(writer.behind_blocks());
  if (recomputation.on)
    writer.backward_recomputing();
  else
    writer.backward(writer.all_blocks());
  writer.backward(writer.before_blocks());
  return writer.take();
}

Result<Rehearsal> iteration_of(const shapes::Model& model, const ChunkLayout& layout, const StatePlacement& placement,
                               const Recomputation& recomputation, const EndOfStep& end, const StateFormat& format) {
  const auto all = layout.tensors.ids();
  const IndexedVector<RegisteredId, TensorId> registration_order({all.begin(), all.end()});
  const auto unit_chunks = chunks_by_unit(model, layout);
  const StepScript script = script_of(model, recomputation);
  return rehearse({layout, registration_order, unit_chunks, script, format, end.overlap_updates, /*plain_norms=*/true},
                  placement, options_of(end));
}

}  // namespace castor::estimate

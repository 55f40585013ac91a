// SPDX-License-Identifier: Apache-2.0
#include "iteration.h"

#include <set>

namespace castor::estimate {
namespace {

/// Writes the calls of a step.
class ScriptWriter {
 public:
  ScriptWriter(const shapes::Model& model, std::uint64_t input_bytes) : model_(model), input_bytes_(input_bytes) {
    for (const shapes::Unit& unit : model.units) {
      first_tensor_.push_back(n_tensors_);
      n_tensors_ += static_cast<std::uint32_t>(unit.numels.size());
    }
  }

  /// The first unit of a block; for the number of layers, the unit behind the last block.
  std::uint32_t block(std::uint64_t layer) const {
    return model_.first_block + static_cast<std::uint32_t>(layer) * model_.units_per_block;
  }

  /// Each block's input is kept right before the block.
  void forward_keeping() {
    forward(0, model_.first_block);
    for (std::uint64_t layer = 0; layer < model_.layers; ++layer) {
      about_input(Kind::keep, layer);
      forward(block(layer), block(layer + 1));
    }
    forward(block(model_.layers), n_units());
    add(Kind::announce);
  }

  void backward(std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t unit = end; unit-- > first;) {
      add(Kind::backward, unit);
      for (std::uint32_t i = 0; i < model_.units[unit].numels.size(); ++i) add(Kind::gradient, first_tensor_[unit] + i);
      add(Kind::end_backward, unit);
    }
  }

  /// Blocks from the last to the first; each runs forward again before it runs backward.
  void backward_recomputing() {
    for (std::uint64_t layer = model_.layers; layer-- > 0;) {
      about_input(Kind::recall, layer);
      forward(block(layer), block(layer + 1));
      backward(block(layer), block(layer + 1));
      about_input(Kind::forget, layer);
    }
  }

  StepScript take() {
    add(Kind::end_of_backward);
    return std::move(script_);
  }
  std::uint32_t n_units() const { return static_cast<std::uint32_t>(model_.units.size()); }

 private:
  using Kind = StepCall::Kind;

  void forward(std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t unit = first; unit < end; ++unit) {
      add(Kind::forward, unit);
      add(Kind::end_forward, unit);
    }
  }

  void about_input(Kind kind, std::uint64_t layer) {
    if (input_bytes_ > 0) add(kind, static_cast<std::uint32_t>(layer), input_bytes_);
  }

  void add(Kind kind, std::uint32_t id = 0, std::uint64_t n_bytes = 0) { script_.push_back({kind, id, n_bytes}); }

  const shapes::Model& model_;
  const std::uint64_t input_bytes_;
  std::vector<std::uint32_t> first_tensor_;  ///< by unit
  std::uint32_t n_tensors_ = 0;
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
    if (unit.shares) chunks.back() = chunks[UnitId{*unit.shares}];
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
    if (n_bytes > largest.payload_bytes) largest = {model.units[index(unit)].name, n_bytes};
  }
  return largest;
}

StepScript script_of(const shapes::Model& model, const Recomputation& recomputation) {
  ScriptWriter writer(model, recomputation.on ? recomputation.input_bytes : 0);
  writer.forward_keeping();
  writer.backward(writer.block(model.layers), writer.n_units());
  if (recomputation.on)
    writer.backward_recomputing();
  else
    writer.backward(model.first_block, writer.block(model.layers));
  writer.backward(0, model.first_block);
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

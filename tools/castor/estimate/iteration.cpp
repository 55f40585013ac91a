// SPDX-License-Identifier: Apache-2.0
#include "iteration.h"

#include <array>

#include <castor/offload/model_chunks.h>

namespace castor::estimate {
namespace {

class Recorder {
 public:
  Recorder(const shapes::Model& model, const ChunkLayout& layout, const Plan& placement)
      : model_(model),
        placement_(placement),
        chunks_(chunks_by_unit(model, layout)),
        n_chunks_(static_cast<std::uint32_t>(layout.chunks.size())),
        begun_(n_chunks_, false) {}

  void forward(std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t unit = first; unit < end; ++unit) trace_.add({MomentKind::forward, unit}, needs(unit));
  }

  void backward(std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t unit = end; unit-- > first;) {
      trace_.add({MomentKind::backward, unit}, needs(unit));
      for (const auto& [chunk, n_bytes] : chunks_[unit]) gradient_arrives(chunk, n_bytes);
    }
  }

  /// Blocks from the last to the first, each forward before it goes backward.
  void backward_recomputing() {
    for (std::uint64_t layer = model_.layers; layer-- > 0;) {
      const std::uint32_t first = model_.first_block + static_cast<std::uint32_t>(layer) * model_.units_per_block;
      forward(first, first + model_.units_per_block);
      backward(first, first + model_.units_per_block);
    }
  }

  void norms() {
    for (std::uint32_t i = 0; i < n_chunks_; ++i)
      trace_.add({MomentKind::norm, i}, std::array{Need{gradient(i), tier(i), Access::read}});
  }

  void updates() {
    for (std::uint32_t i = 0; i < n_chunks_; ++i) {
      trace_.add({MomentKind::update, i},
                 std::array{Need{state(i), tier(i), Access::update}, Need{gradient(i), tier(i), Access::read},
                            Need{payload(i), tier(i), Access::overwrite}});
      trace_.drop(gradient(i));
    }
  }

  AccessTrace take() { return std::move(trace_); }

 private:
  static ChunkId payload(std::uint32_t i) { return 2 * i; }
  static ChunkId state(std::uint32_t i) { return 2 * i + 1; }
  ChunkId gradient(std::uint32_t i) const { return 2 * n_chunks_ + i; }
  Tier tier(std::uint32_t i) const { return placement_.states[i] == Tier::device ? Tier::device : Tier::host; }

  std::vector<Need> needs(std::uint32_t unit) const {
    std::vector<Need> found;
    for (const auto& [chunk, n_bytes] : chunks_[model_.units[unit].shares.value_or(unit)])
      found.push_back({payload(chunk), Tier::device, Access::read});
    return found;
  }

  void gradient_arrives(std::uint32_t chunk, std::uint64_t n_bytes) {
    trace_.add_need({gradient(chunk), tier(chunk), begun_[chunk] ? Access::update : Access::overwrite});
    begun_[chunk] = true;
    if (tier(chunk) == Tier::host) trace_.add_arrival(gradient(chunk), n_bytes);
  }

  const shapes::Model& model_;
  const Plan& placement_;
  const std::vector<BytesByChunk> chunks_;  ///< by unit
  const std::uint32_t n_chunks_;
  std::vector<bool> begun_;  ///< by chunk: gradients have arrived
  AccessTrace trace_;
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

Iteration iteration_of(const shapes::Model& model, const ChunkLayout& layout, const Plan& placement, bool recompute,
                       bool clip) {
  const auto n_units = static_cast<std::uint32_t>(model.units.size());
  const std::uint32_t end_of_blocks =
      model.first_block + static_cast<std::uint32_t>(model.layers) * model.units_per_block;
  Recorder recorder(model, layout, placement);
  recorder.forward(0, n_units);
  recorder.backward(end_of_blocks, n_units);
  if (recompute)
    recorder.backward_recomputing();
  else
    recorder.backward(model.first_block, end_of_blocks);
  recorder.backward(0, model.first_block);
  if (clip) recorder.norms();
  recorder.updates();

  Iteration iteration{recorder.take(), {}};
  const auto demands = demands_of(layout);
  for (const ChunkDemand& demand : demands)
    for (const std::uint64_t n_bytes : {demand.payload_bytes, demand.state_bytes}) iteration.n_bytes.push_back(n_bytes);
  for (const ChunkDemand& demand : demands) iteration.n_bytes.push_back(demand.gradient_bytes);
  return iteration;
}

}  // namespace castor::estimate

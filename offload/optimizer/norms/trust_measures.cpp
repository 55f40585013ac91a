// SPDX-License-Identifier: Apache-2.0
#include "trust_measures.h"

#include "team_trust.h"

namespace castor {

const float* TrustMeasures::ratio(TensorId tensor) const {
  const bool on_gpu = parts_.inputs.updates_on_gpu(parts_.inputs.states.layout().tensors[tensor].chunk);
  return on_gpu && device_ratios_ ? device_ratios_->of(number(tensor)) : &host_ratios_[tensor];
}

Result<TrustRatios*> TrustMeasures::device_ratios() {
  if (!device_ratios_) {
    CASTOR_ASSIGN(device_ratios_, TrustRatios::make(parts_.inputs.device, parts_.inputs.states.n_tensors()));
  }
  return device_ratios_.get();
}

Result<void> TrustMeasures::OfChunk::measure_cut_tensors() {
  if (!terms_.options.measures_direction()) return {};
  for (const TileId tile : measures_.parts_.inputs.states.shape(chunk_).tiles())
    if (!measured_parts(tile, /*cut=*/true).empty()) CASTOR_TRY(measure_tile(tile));
  return {};
}

Result<void> TrustMeasures::OfChunk::before_update(TileId tile, std::vector<Event>& after) {
  if (terms_.options.measures_direction())
    CASTOR_TRY(measure_directions(tile, measured_parts(tile, /*cut=*/false), after));
  else if (tile == TileId{} && terms_.options.needs_trust())
    CASTOR_TRY(measure_trust(after));
  if (directions_.done().state() != nullptr) after.push_back(directions_.done());
  return {};
}

Result<void> TrustMeasures::OfChunk::measure_trust(std::vector<Event>& after) {
  const TileInputs& inputs = measures_.parts_.inputs;
  if (inputs.updates_on_gpu(chunk_)) return measure_trust_on_gpu();
  TeamTrust trust(inputs.states.shape(chunk_).dtype, inputs.gradients.dtype(chunk_));
  for (const TensorId tensor : inputs.states.shape(chunk_).tensors)
    if (const auto of = terms_of(tensor); of && inputs.gradients.has(tensor))
      trust.add(*of, inputs.whole(tensor), &measures_.host_ratios_[tensor]);
  if (!trust.empty()) after.push_back(trust.start(measures_.parts_.team, number(chunk_), after));
  return {};
}

Result<void> TrustMeasures::OfChunk::measure_trust_on_gpu() {
  const TileInputs& inputs = measures_.parts_.inputs;
  CASTOR_ASSIGN(TrustRatios* const ratios, measures_.device_ratios());
  for (const TensorId tensor : inputs.states.shape(chunk_).tensors)
    if (const auto of = terms_of(tensor); of && inputs.gradients.has(tensor))
      CASTOR_TRY(ratios->measure(measures_.parts_.compute, number(tensor), *of, inputs.whole(tensor)));
  return {};
}

/// Runs a moment of its own for a tile that is measured and not updated.
Result<void> TrustMeasures::OfChunk::measure_tile(TileId tile) {
  const Parts& parts = measures_.parts_;
  const StateLayout& states = parts.inputs.states;
  const Tier tier = states.update_tier(chunk_);
  std::vector<Need> needs = {{states.state(chunk_, tile), tier, Access::read},
                             {parts.inputs.gradients.chunk(chunk_), tier, Access::read}};
  if (states.format().splits(states.shape(chunk_).dtype)) needs.push_back({states.payload(chunk_), tier, Access::read});
  const bool beside = parts.overlap && tier == Tier::host;
  Beside others{parts.team};
  CASTOR_TRY(parts.scheduler.begin({MomentKind::update, number(chunk_)}, needs, beside ? &others : nullptr));
  auto outcome = measure_directions(tile, measured_parts(tile, /*cut=*/true), others.after);
  if (!beside && !parts.inputs.updates_on_gpu(chunk_) && outcome.ok()) outcome = directions_.done().wait();
  parts.scheduler.end(needs, beside ? directions_.done() : Event());
  return outcome;
}

/// The parts with a gradient: those of tensors that lie in several tiles (`cut`), or those of all others.
std::vector<TilePart> TrustMeasures::OfChunk::measured_parts(TileId tile, bool cut) const {
  const TileInputs& inputs = measures_.parts_.inputs;
  std::vector<TilePart> parts = inputs.states.parts_of(chunk_, tile);
  std::erase_if(parts, [&](const TilePart& part) {
    return !inputs.gradients.has(part.tensor) || is_cut(inputs.states.layout(), part) != cut;
  });
  return parts;
}

Result<void> TrustMeasures::OfChunk::measure_directions(TileId tile, const std::vector<TilePart>& parts,
                                                        const std::vector<Event>& after) {
  const TileInputs& inputs = measures_.parts_.inputs;
  for (const TilePart& part : parts) {
    const TensorId tensor = part.tensor;
    const auto update = std::get<LambCoefficients>(
        inputs.coefficients(tensor, inputs.states.n_updates(tensor) + 1, terms_, measures_.ratio(tensor)));
    const TrustTerms of = terms_of(tensor).value();
    const MeasuredPart measured = {inputs.arrays(chunk_, tile, part), part.in_tensor,
                                   inputs.states.layout().tensors[tensor].numel};
    if (inputs.updates_on_gpu(chunk_)) {
      CASTOR_ASSIGN(TrustRatios* const ratios, measures_.device_ratios());
      CASTOR_TRY(ratios->measure(measures_.parts_.compute, number(tensor), of, update, measured));
    } else {
      directions_.add(tensor, of, update, measured, &measures_.host_ratios_[tensor]);
    }
  }
  if (!parts.empty() && !inputs.updates_on_gpu(chunk_)) directions_.start(measures_.parts_.team, number(chunk_), after);
  return {};
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "trust_measures.h"

#include "team_trust.h"

namespace castor {

const float* TrustMeasures::ratio(std::uint32_t tensor) const {
  const bool on_gpu = parts_.inputs.updates_on_gpu(parts_.inputs.states.layout().tensors[tensor].chunk);
  return on_gpu && device_ratios_ ? device_ratios_->of(tensor) : &host_ratios_[tensor];
}

Result<TrustRatios*> TrustMeasures::device_ratios() {
  if (!device_ratios_) {
    CASTOR_ASSIGN(device_ratios_, TrustRatios::make(parts_.inputs.device, parts_.inputs.states.n_tensors()));
  }
  return device_ratios_.get();
}

Result<void> TrustMeasures::OfChunk::measure_cut_tensors() {
  if (!terms_.options.measures_direction()) return {};
  const std::uint32_t n_tiles = measures_.parts_.inputs.states.shape(i_).n_tiles();
  for (std::uint32_t tile = 0; tile < n_tiles; ++tile)
    if (!measured_parts(tile, /*cut=*/true).empty()) CASTOR_TRY(measure_tile(tile));
  return {};
}

Result<void> TrustMeasures::OfChunk::before_update(std::uint32_t tile, std::vector<Event>& after) {
  if (terms_.options.measures_direction())
    CASTOR_TRY(measure_directions(tile, measured_parts(tile, /*cut=*/false), after));
  else if (tile == 0 && terms_.options.needs_trust())
    CASTOR_TRY(measure_trust(after));
  if (directions_.done().state() != nullptr) after.push_back(directions_.done());
  return {};
}

Result<void> TrustMeasures::OfChunk::measure_trust(std::vector<Event>& after) {
  const TileInputs& inputs = measures_.parts_.inputs;
  if (inputs.updates_on_gpu(i_)) return measure_trust_on_gpu();
  TeamTrust trust(inputs.states.shape(i_).dtype, inputs.gradients.dtype(i_));
  for (const std::uint32_t tensor : inputs.states.shape(i_).tensors)
    if (const auto of = trust_terms(terms_.options.of(tensor), terms_.grad_scale); of && inputs.gradients.has(tensor))
      trust.add(*of, inputs.whole(tensor), &measures_.host_ratios_[tensor]);
  if (!trust.empty()) after.push_back(trust.start(measures_.parts_.team, i_, after));
  return {};
}

Result<void> TrustMeasures::OfChunk::measure_trust_on_gpu() {
  const TileInputs& inputs = measures_.parts_.inputs;
  CASTOR_ASSIGN(TrustRatios* const ratios, measures_.device_ratios());
  for (const std::uint32_t tensor : inputs.states.shape(i_).tensors)
    if (const auto of = trust_terms(terms_.options.of(tensor), terms_.grad_scale); of && inputs.gradients.has(tensor))
      CASTOR_TRY(ratios->measure(measures_.parts_.compute, tensor, *of, inputs.whole(tensor)));
  return {};
}

/// Runs a moment of its own for a tile that is measured and not updated.
Result<void> TrustMeasures::OfChunk::measure_tile(std::uint32_t tile) {
  const Parts& parts = measures_.parts_;
  const StateLayout& states = parts.inputs.states;
  const Tier tier = states.update_tier(i_);
  std::vector<Need> needs = {{states.state(i_, tile), tier, Access::read},
                             {parts.inputs.gradients.chunk(i_), tier, Access::read}};
  if (states.format().splits(states.shape(i_).dtype)) needs.push_back({states.payload(i_), tier, Access::read});
  const bool beside = parts.overlap && tier == Tier::host;
  Beside others{parts.team};
  CASTOR_TRY(parts.scheduler.begin({MomentKind::update, i_}, needs, beside ? &others : nullptr));
  auto outcome = measure_directions(tile, measured_parts(tile, /*cut=*/true), others.after);
  if (!beside && !parts.inputs.updates_on_gpu(i_) && outcome.ok()) outcome = directions_.done().wait();
  parts.scheduler.end(needs, beside ? directions_.done() : Event());
  return outcome;
}

/// The parts with a gradient: those of tensors that lie in several tiles (`cut`), or those of all others.
std::vector<TilePart> TrustMeasures::OfChunk::measured_parts(std::uint32_t tile, bool cut) const {
  const TileInputs& inputs = measures_.parts_.inputs;
  std::vector<TilePart> parts = inputs.states.parts_of(i_, tile);
  std::erase_if(parts, [&](const TilePart& part) {
    return !inputs.gradients.has(part.tensor) || is_cut(inputs.states.layout(), part) != cut;
  });
  return parts;
}

Result<void> TrustMeasures::OfChunk::measure_directions(std::uint32_t tile, const std::vector<TilePart>& parts,
                                                        const std::vector<Event>& after) {
  const TileInputs& inputs = measures_.parts_.inputs;
  for (const TilePart& part : parts) {
    const std::uint32_t tensor = part.tensor;
    const auto update = std::get<LambCoefficients>(
        inputs.coefficients(tensor, inputs.states.n_updates(tensor) + 1, terms_, measures_.ratio(tensor)));
    const TrustTerms of = trust_terms(terms_.options.of(tensor), terms_.grad_scale).value();
    const MeasuredPart measured = {inputs.arrays(i_, tile, part), part.in_tensor,
                                   inputs.states.layout().tensors[tensor].numel};
    if (inputs.updates_on_gpu(i_)) {
      CASTOR_ASSIGN(TrustRatios* const ratios, measures_.device_ratios());
      CASTOR_TRY(ratios->measure(measures_.parts_.compute, tensor, of, update, measured));
    } else {
      directions_.add(tensor, of, update, measured, &measures_.host_ratios_[tensor]);
    }
  }
  if (!parts.empty() && !inputs.updates_on_gpu(i_)) directions_.start(measures_.parts_.team, i_, after);
  return {};
}

}  // namespace castor

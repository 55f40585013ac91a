// SPDX-License-Identifier: Apache-2.0
// What is measured of a chunk's tensors before they are updated.
#include <castor/optimizer/offload_optimizer.h>

#include "team_directions.h"
#include "team_trust.h"

namespace castor {

bool OffloadOptimizer::updates_on_gpu(std::uint32_t i) const {
  return update_tier(i) == Tier::device && parts_.device.kind() != DeviceKind::cpu;
}

/// The whole tensor where it is updated: its gradient and its weights, of which no tile has changed yet.
TrustedTensor OffloadOptimizer::trusted(std::uint32_t tensor) const {
  const TensorPlace& place = parts_.layout.tensors[tensor];
  const Tier tier = update_tier(place.chunk);
  const auto data = [&](ChunkId id) { return parts_.chunks.chunk(id).at(tier).buffer.data(); };
  TrustedTensor found;
  found.n = place.numel;
  found.weight_dtype = parts_.layout.chunks[place.chunk].dtype;
  found.weight = data(payload_[place.chunk]) + place.offset * size_bytes(found.weight_dtype);
  found.grad_dtype = gradients_->dtype(place.chunk);
  found.grad = data(gradients_->chunk(place.chunk)) + place.offset * size_bytes(found.grad_dtype);
  return found;
}

const float* OffloadOptimizer::trust_of(std::uint32_t tensor) const {
  const bool on_gpu = updates_on_gpu(parts_.layout.tensors[tensor].chunk);
  return on_gpu && device_trust_ ? device_trust_->of(tensor) : &host_trust_[tensor];
}

/// On a GPU in stream order before the update; on the host by the team, for when `after` has been reached, and the update is
/// to begin after what is then in `after`.
Result<void> OffloadOptimizer::measure_trust(std::uint32_t i, const StepOptions& options, double grad_scale,
                                             std::vector<Event>& after) {
  if (updates_on_gpu(i)) return measure_trust_on_gpu(i, options, grad_scale);
  TeamTrust trust(parts_.layout.chunks[i].dtype, gradients_->dtype(i));
  for (const std::uint32_t tensor : parts_.layout.chunks[i].tensors)
    if (const auto terms = trust_terms(options.of(tensor), grad_scale); terms && gradients_->has(tensor))
      trust.add(*terms, trusted(tensor), &host_trust_[tensor]);
  if (!trust.empty()) after.push_back(trust.start(parts_.team, i, after));
  return {};
}

Result<TrustRatios*> OffloadOptimizer::device_trust() {
  if (!device_trust_) {
    const auto n_tensors = static_cast<std::uint32_t>(parts_.layout.tensors.size());
    CASTOR_ASSIGN(device_trust_, TrustRatios::make(parts_.device, n_tensors));
  }
  return device_trust_.get();
}

Result<void> OffloadOptimizer::measure_trust_on_gpu(std::uint32_t i, const StepOptions& options, double grad_scale) {
  CASTOR_ASSIGN(TrustRatios* const ratios, device_trust());
  for (const std::uint32_t tensor : parts_.layout.chunks[i].tensors)
    if (const auto terms = trust_terms(options.of(tensor), grad_scale); terms && gradients_->has(tensor))
      CASTOR_TRY(ratios->measure(parts_.compute, tensor, *terms, trusted(tensor)));
  return {};
}

/// The directions of tensors that lie in several tiles, which need not be in memory together: in a round of its own before
/// any of them changes. Those of the others are measured where their tile is updated.
Result<void> OffloadOptimizer::measure_cut_tensors(std::uint32_t i, const StepOptions& options, double grad_scale,
                                                   TeamDirections& directions) {
  for (std::uint32_t tile = 0; tile < parts_.layout.chunks[i].n_tiles(); ++tile)
    if (!measured_parts(i, tile, /*cut=*/true).empty())
      CASTOR_TRY(measure_tile(i, tile, options, grad_scale, directions));
  return {};
}

Result<void> OffloadOptimizer::measure_tile(std::uint32_t i, std::uint32_t tile, const StepOptions& options,
                                            double grad_scale, TeamDirections& directions) {
  const Tier tier = update_tier(i);
  std::vector<Need> needs = {{state_[i][tile], tier, Access::read}, {gradients_->chunk(i), tier, Access::read}};
  if (parts_.format.splits(parts_.layout.chunks[i].dtype)) needs.push_back({payload_[i], tier, Access::read});
  const bool beside = parts_.overlap && tier == Tier::host;
  Beside others{parts_.team};
  CASTOR_TRY(parts_.scheduler.begin({MomentKind::update, i}, needs, beside ? &others : nullptr));
  auto outcome =
      measure_directions(i, tile, measured_parts(i, tile, /*cut=*/true), options, grad_scale, directions, others.after);
  if (!beside && !updates_on_gpu(i) && outcome.ok()) outcome = directions.done().wait();
  parts_.scheduler.end(needs, beside ? directions.done() : Event());
  return outcome;
}

/// Those with a gradient of tensors that go on in other tiles; or of those that do not.
std::vector<TilePart> OffloadOptimizer::measured_parts(std::uint32_t i, std::uint32_t tile, bool cut) const {
  std::vector<Part> parts = parts_of(i, tile);
  std::erase_if(parts,
                [&](const Part& part) { return !gradients_->has(part.tensor) || is_cut(parts_.layout, part) != cut; });
  return parts;
}

/// On a GPU in stream order; on the host by the team, for when `after` has been reached.
Result<void> OffloadOptimizer::measure_directions(std::uint32_t i, std::uint32_t tile, const std::vector<Part>& parts,
                                                  const StepOptions& options, double grad_scale,
                                                  TeamDirections& directions, const std::vector<Event>& after) {
  for (const Part& part : parts) {
    const std::uint32_t tensor = part.tensor;
    const auto update = std::get<LambCoefficients>(coefficients(tensor, n_updates_[tensor] + 1, options, grad_scale));
    const TrustTerms terms = trust_terms(options.of(tensor), grad_scale).value();
    const MeasuredPart measured = {arrays(i, tile, part), part.in_tensor, parts_.layout.tensors[tensor].numel};
    if (updates_on_gpu(i)) {
      CASTOR_ASSIGN(TrustRatios* const ratios, device_trust());
      CASTOR_TRY(ratios->measure(parts_.compute, tensor, terms, update, measured));
    } else {
      directions.add(tensor, terms, update, measured, &host_trust_[tensor]);
    }
  }
  if (!parts.empty() && !updates_on_gpu(i)) directions.start(parts_.team, i, after);
  return {};
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
// What is measured of a chunk's tensors before the first of its tiles is updated.
#include <castor/offload/offload_optimizer.h>

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

Result<void> OffloadOptimizer::measure_trust_on_gpu(std::uint32_t i, const StepOptions& options, double grad_scale) {
  if (!device_trust_) {
    const auto n_tensors = static_cast<std::uint32_t>(parts_.layout.tensors.size());
    CASTOR_ASSIGN(device_trust_, TrustRatios::make(parts_.device, n_tensors));
  }
  for (const std::uint32_t tensor : parts_.layout.chunks[i].tensors)
    if (const auto terms = trust_terms(options.of(tensor), grad_scale); terms && gradients_->has(tensor))
      CASTOR_TRY(device_trust_->measure(parts_.compute, tensor, *terms, trusted(tensor)));
  return {};
}

}  // namespace castor

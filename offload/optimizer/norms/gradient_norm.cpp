// SPDX-License-Identifier: Apache-2.0
#include "gradient_norm.h"

#include <algorithm>
#include <array>

namespace castor {

Result<std::unique_ptr<GradientNorm>> GradientNorm::make(const Parts& parts) {
  std::unique_ptr<GradientNorm> norm(new GradientNorm(parts));
  CASTOR_ASSIGN(norm->device_norm_, make_grad_norm(parts.device));
  const std::uint32_t n_tensors = parts.states.n_tensors();
  CASTOR_ASSIGN(norm->sums_, Buffer::allocate(parts.device.host_memory(), (n_tensors + 1) * sizeof(double)));
  norm->measured_.assign(n_tensors, false);
  return norm;
}

void GradientNorm::arrived(TensorId tensor, const void* grad) {
  const TensorPlace& place = parts_.states.layout().tensors[tensor];
  const DType dtype = parts_.states.shape(place.chunk).dtype;
  measured_[tensor] = wanted_ && !parts_.gradients.has(tensor) &&
                      device_norm_->sum_of_squares(parts_.compute, grad, dtype, place.numel, &sum(tensor)).ok();
}

Result<StepScale> GradientNorm::measure(const StepOptions& options) {
  wanted_ = options.needs_norm();
  if (!wanted_) return StepScale();
  std::vector<HostNorm> on_host;
  for (const PayloadId chunk : parts_.states.chunks())
    if (parts_.states.shape(chunk).trainable && !measured(chunk)) CASTOR_TRY(measure_chunk(chunk, on_host));
  for (HostNorm& norm : on_host) {
    CASTOR_TRY(parts_.mover.join_host(norm.done(), "the norm of the gradients"));
    CASTOR_TRY(norm.finish());
  }
  CASTOR_TRY(parts_.scheduler.join({MomentKind::norm, 0}));
  std::vector<double> ordered;
  for (const TensorId tensor : parts_.states.registration_order())
    ordered.push_back(parts_.gradients.has(tensor) ? sum(tensor) : 0);
  return combine_norms(ordered.data(), ordered.size(), options.max_norm, options.loss_scale);
}

/// True where every gradient that the chunk has got has been measured.
bool GradientNorm::measured(PayloadId chunk) const {
  const auto& tensors = parts_.states.shape(chunk).tensors;
  return std::all_of(tensors.begin(), tensors.end(), [this](TensorId tensor) {
    return measured_[tensor] || !parts_.gradients.has(tensor);
  });
}

/// Measures the other gradients of a chunk; on the host the team does so beside the thread.
Result<void> GradientNorm::measure_chunk(PayloadId chunk, std::vector<HostNorm>& on_host) {
  CASTOR_TRY(parts_.gradients.finish_sum(chunk));
  const Tier tier = parts_.gradients.tier(chunk);
  const std::array<Need, 1> needs = {Need{parts_.gradients.chunk(chunk), tier, Access::read}};
  Beside others{parts_.team};
  CASTOR_TRY(parts_.scheduler.begin({MomentKind::norm, number(chunk)}, needs, tier == Tier::host ? &others : nullptr));
  const std::byte* grads = parts_.chunks.chunk(needs[0].chunk).at(tier).buffer.data();
  const DType dtype = parts_.gradients.dtype(chunk);
  HostNorm norm(dtype);
  Result<void> outcome;
  for (const TensorId tensor : parts_.states.shape(chunk).tensors) {
    const TensorPlace& place = parts_.states.layout().tensors[tensor];
    if (!parts_.gradients.has(tensor) || measured_[tensor] || !outcome.ok()) continue;
    const std::byte* const grad = grads + place.offset * size_bytes(dtype);
    if (tier == Tier::device)
      outcome = device_norm_->sum_of_squares(parts_.compute, grad, dtype, place.numel, &sum(tensor));
    else
      norm.add(grad, place.numel, &sum(tensor));
  }
  if (tier == Tier::host) norm.start(parts_.team, number(chunk), std::move(others.after));
  parts_.scheduler.end(needs, norm.done());
  on_host.push_back(std::move(norm));
  return outcome;
}

}  // namespace castor

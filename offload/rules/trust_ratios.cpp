// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/trust_ratio.h>

#include <utility>

namespace castor {

TrustRatios::TrustRatios(Buffer slots, std::unique_ptr<GradNormKernel> norm,
                         std::unique_ptr<DirectionNormKernel> directions, std::unique_ptr<TrustKernel> trust)
    : slots_(std::move(slots)), norm_(std::move(norm)), directions_(std::move(directions)), trust_(std::move(trust)) {}

Result<std::unique_ptr<TrustRatios>> TrustRatios::make(Device& device, std::uint32_t n_tensors) {
  CASTOR_ASSIGN(auto norm, make_grad_norm(device));
  CASTOR_ASSIGN(auto directions, make_direction_norm(device));
  CASTOR_ASSIGN(auto trust, make_trust(device));
  CASTOR_ASSIGN(Buffer slots, Buffer::allocate(device.device_memory(), (n_tensors + 1) * sizeof(Slot)));
  return std::unique_ptr<TrustRatios>(
      new TrustRatios(std::move(slots), std::move(norm), std::move(directions), std::move(trust)));
}

Result<void> TrustRatios::measure(Stream& stream, std::uint32_t id, const TrustTerms& terms,
                                  const TrustedTensor& tensor) {
  Slot* const found = slot(id);
  CASTOR_TRY(norm_->sum_of_squares(stream, tensor.weight, tensor.weight_dtype, tensor.n, &found->sums[0]));
  CASTOR_TRY(norm_->sum_of_squares(stream, tensor.grad, tensor.grad_dtype, tensor.n, &found->sums[1]));
  return trust_->ratio(stream, terms, found->sums, &found->ratio);
}

Result<void> TrustRatios::measure(Stream& stream, std::uint32_t id, const TrustTerms& terms,
                                  const LambCoefficients& coefficients, const MeasuredPart& part) {
  Slot* const found = slot(id);
  CASTOR_TRY(directions_->add(stream, coefficients, part, found->sums));
  return part.ends() ? trust_->ratio(stream, terms, found->sums, &found->ratio) : Result<void>();
}

}  // namespace castor

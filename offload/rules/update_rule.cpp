// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/update_rule.h>

#include <utility>

namespace castor {
namespace {

UpdateCoefficients coefficients_of(const AdamOptions& options, const UpdateNumber& number, double grad_scale) {
  AdamCoefficients coefficients = adam_coefficients(options, number.t, grad_scale);
  coefficients.rounding_key = rounding_key(number.rounding_seed, number.tensor, number.t);
  return coefficients;
}

UpdateCoefficients coefficients_of(const SgdOptions& options, const UpdateNumber& number, double grad_scale) {
  SgdCoefficients coefficients = sgd_coefficients(options, grad_scale);
  if (options.trust_coefficient > 0) coefficients.trust = number.trust;
  return coefficients;
}

UpdateCoefficients coefficients_of(const LambOptions& options, const UpdateNumber& number, double grad_scale) {
  LambCoefficients coefficients = lamb_coefficients(options, number.t, grad_scale);
  coefficients.adam.rounding_key = rounding_key(number.rounding_seed, number.tensor, number.t);
  coefficients.trust = number.trust;
  return coefficients;
}

}  // namespace

UpdateCoefficients update_coefficients(const UpdateOptions& options, const UpdateNumber& number, double grad_scale) {
  return std::visit([&](const auto& of_rule) { return coefficients_of(of_rule, number, grad_scale); }, options);
}

std::optional<TrustTerms> trust_terms(const UpdateOptions& options, double grad_scale) {
  if (measures_direction(options)) return TrustTerms{.coefficient = 1};
  const auto* const sgd = std::get_if<SgdOptions>(&options);
  if (sgd == nullptr || !(sgd->trust_coefficient > 0)) return {};
  return TrustTerms{sgd->trust_coefficient, grad_scale, sgd->weight_decay, sgd->eps};
}

bool measures_direction(const UpdateOptions& options) { return std::holds_alternative<LambOptions>(options); }

bool keeps_exp_avg_sq(const UpdateOptions& options) { return !std::holds_alternative<SgdOptions>(options); }

Result<UpdateKernels> UpdateKernels::make(const Device& device) {
  CASTOR_ASSIGN(auto adam, make_adam(device));
  CASTOR_ASSIGN(auto sgd, make_sgd(device));
  CASTOR_ASSIGN(auto lamb, make_lamb(device));
  return UpdateKernels(std::move(adam), std::move(sgd), std::move(lamb));
}

UpdateKernels UpdateKernels::make_host() { return {make_host_adam(), make_host_sgd(), make_host_lamb()}; }

Result<void> UpdateKernels::update(Stream& stream, const UpdateCoefficients& coefficients,
                                   const UpdateArrays& arrays) const {
  if (const auto* const adam = std::get_if<AdamCoefficients>(&coefficients))
    return adam_->update(stream, *adam, arrays);
  if (const auto* const sgd = std::get_if<SgdCoefficients>(&coefficients)) return sgd_->update(stream, *sgd, arrays);
  return lamb_->update(stream, std::get<LambCoefficients>(coefficients), arrays);
}

}  // namespace castor

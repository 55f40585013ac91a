// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include <castor/rules/adam.h>
#include <castor/rules/lamb.h>
#include <castor/rules/sgd.h>
#include <castor/rules/trust_ratio.h>

namespace castor {

/// How a step changes a tensor: the hyperparameters of one of the rules there are.
using UpdateOptions = std::variant<AdamOptions, SgdOptions, LambOptions>;

/// What the kernel of that rule multiplies with.
using UpdateCoefficients = std::variant<AdamCoefficients, SgdCoefficients, LambCoefficients>;

/// One update among all of a training.
struct UpdateNumber {
  std::uint64_t t = 1;       ///< of this tensor's updates, from 1 on
  std::uint32_t tensor = 0;  ///< in the order of registration
  std::uint64_t rounding_seed = 0;
  const float* trust = nullptr;  ///< where its kernel will find the tensor's ratio, for rules with trust_terms
};

/// The coefficients of that update, whose gradient is first multiplied by `grad_scale`.
/// Requires: t > 0 (ContractViolation).
UpdateCoefficients update_coefficients(const UpdateOptions& options, const UpdateNumber& number, double grad_scale);

/// What the tensor's trust ratio is made of, where the rule has one: LARS and LAMB. The gradient is first multiplied by
/// `grad_scale`.
std::optional<TrustTerms> trust_terms(const UpdateOptions& options, double grad_scale);

/// Whether that ratio is of the direction of the update (direction_norm.h), not of the gradient: LAMB.
bool measures_direction(const UpdateOptions& options);

/// Whether the rule keeps exp_avg_sq beside exp_avg.
bool keeps_exp_avg_sq(const UpdateOptions& options);

/// A kernel of each rule, all for one place.
class UpdateKernels {
 public:
  /// Errors: those of make_adam, make_sgd and make_lamb.
  static Result<UpdateKernels> make(const Device& device);
  /// The plain loops on the host.
  static UpdateKernels make_host();

  /// By the kernel of the rule that the coefficients are of. Requirements, threads, errors: as AdamKernel::update.
  Result<void> update(Stream& stream, const UpdateCoefficients& coefficients, const AdamArrays& arrays) const;

 private:
  UpdateKernels(std::unique_ptr<AdamKernel> adam, std::unique_ptr<SgdKernel> sgd, std::unique_ptr<LambKernel> lamb)
      : adam_(std::move(adam)), sgd_(std::move(sgd)), lamb_(std::move(lamb)) {}

  std::unique_ptr<AdamKernel> adam_;
  std::unique_ptr<SgdKernel> sgd_;
  std::unique_ptr<LambKernel> lamb_;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include <castor/rules/adam.h>
#include <castor/rules/lamb.h>
#include <castor/rules/registered_id.h>
#include <castor/rules/sgd.h>
#include <castor/rules/trust_ratio.h>

namespace castor {

/// The hyperparameters of one rule, by which a step updates a tensor.
using UpdateOptions = std::variant<AdamOptions, SgdOptions, LambOptions>;

/// The factors of that rule's kernel.
using UpdateCoefficients = std::variant<AdamCoefficients, SgdCoefficients, LambCoefficients>;

/// Identifies one update among all updates of a training.
struct UpdateNumber {
  std::uint64_t t = 1;  ///< the number among this tensor's updates, from 1 on
  RegisteredId tensor{};
  std::uint64_t rounding_seed = 0;
  const float* trust = nullptr;  ///< the kernel reads the tensor's ratio from here, for rules with trust_terms
};

/// The coefficients of update `number`, whose gradient is first multiplied by `grad_scale`.
/// Requires: t > 0 (ContractViolation).
UpdateCoefficients update_coefficients(const UpdateOptions& options, const UpdateNumber& number, double grad_scale);

/// The terms of the tensor's trust ratio, where the rule has one: LARS and LAMB. The gradient is first multiplied by
/// `grad_scale`.
std::optional<TrustTerms> trust_terms(const UpdateOptions& options, double grad_scale);

/// True where that ratio measures the direction of the update (direction_norm.h), not the gradient: LAMB.
bool measures_direction(const UpdateOptions& options);

/// True where the rule keeps exp_avg_sq beside exp_avg.
bool keeps_exp_avg_sq(const UpdateOptions& options);

/// A kernel of each rule, all for one device or all for the host.
class UpdateKernels {
 public:
  /// Errors: those of make_adam, make_sgd and make_lamb.
  static Result<UpdateKernels> make(const Device& device);
  /// The plain loops on the host.
  static UpdateKernels make_host();

  /// Runs the kernel of the rule to which the coefficients belong. Requirements, threads, errors: as
  /// AdamKernel::update.
  Result<void> update(Stream& stream, const UpdateCoefficients& coefficients, const UpdateArrays& arrays) const;

 private:
  UpdateKernels(std::unique_ptr<AdamKernel> adam, std::unique_ptr<SgdKernel> sgd, std::unique_ptr<LambKernel> lamb)
      : adam_(std::move(adam)), sgd_(std::move(sgd)), lamb_(std::move(lamb)) {}

  std::unique_ptr<AdamKernel> adam_;
  std::unique_ptr<SgdKernel> sgd_;
  std::unique_ptr<LambKernel> lamb_;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <castor/memory/result.h>

namespace castor {

enum class LrScheduleKind : std::uint8_t { constant, linear, cosine, multistep, onecycle, polynomial, exponential };
inline constexpr std::array<LrScheduleKind, 7> kLrScheduleKinds = {
    LrScheduleKind::constant, LrScheduleKind::linear,     LrScheduleKind::cosine,     LrScheduleKind::multistep,
    LrScheduleKind::onecycle, LrScheduleKind::polynomial, LrScheduleKind::exponential};
/// The kind as the command spells it.
const char* name(LrScheduleKind kind);

/// The course of a learning rate. A field applies to the kinds that its comment names; the others ignore it.
///
/// Steps count from 0. In step t of a warm-up of W steps the rate is lr·(t+1)/W: no step is wasted on a rate of 0, and
/// step W−1 has the whole rate. x is the share of the steps from W to `decay_steps` that have passed, at most 1.
struct LrScheduleOptions {
  LrScheduleKind kind = LrScheduleKind::constant;
  double lr = 1e-3;               ///< the largest rate, 0 or more
  std::int64_t warmup_steps = 0;  ///< W; all but onecycle
  std::int64_t decay_steps = 0;   ///< the first step at the final rate, warm-up included: linear, cosine,
                                  ///< polynomial. onecycle: the steps of the cycle
  double min_lr = 0;              ///< 0 to lr, from `decay_steps` on: linear, cosine, polynomial
  std::vector<std::int64_t> milestones = {};  ///< ascending, none within the warm-up: multistep
  double gamma = 0;                           ///< above 0, at most 1: per milestone (multistep), per step (exponential)
  double power = 1;                           ///< above 0: polynomial
  double pct_start = 0.3;                     ///< share of the cycle in which the rate rises, 0 to 1: onecycle
  double div_factor = 25;                     ///< onecycle begins at lr / div_factor, 1 or more
  double final_div_factor = 1e4;              ///< … and ends at lr / div_factor / final_div_factor, 1 or more
};

/// The learning rate of each optimizer step: a pure function of the step's number. Nothing is accumulated, so a run
/// that begins at step n has the same rates from there on.
///
/// | kind        | after warm-up                                            | as in torch.optim.lr_scheduler       |
/// |-------------|----------------------------------------------------------|--------------------------------------|
/// | constant    | lr                                                       | ConstantLR(factor=1)                 |
/// | linear      | min_lr + (lr − min_lr)·(1 − x)                           | LinearLR                             |
/// | cosine      | min_lr + (lr − min_lr)·(1 + cos πx)/2, no restart        | CosineAnnealingLR to its T_max       |
/// | polynomial  | min_lr + (lr − min_lr)·(1 − x)^power                     | PolynomialLR                         |
/// | multistep   | lr·gamma^(milestones that are not above the step)        | MultiStepLR                          |
/// | exponential | lr·gamma^(steps since warm-up)                           | ExponentialLR                        |
/// | onecycle    | two half cosines, up and down; last in step decay_steps−1 | OneCycleLR, betas as they were given |
///
/// Source: cosine from Loshchilov and Hutter, "SGDR", 2017, equation 5; onecycle from Smith and Topin,
/// "Super-Convergence", 2018, its two phases as torch has them.
class LrSchedule {
 public:
  /// Checks the fields that apply to the kind. Errors: usage; the sentence begins with the name of the wrong field.
  static Result<LrSchedule> make(const LrScheduleOptions& options);

  /// The rate of step `step`, from 0 to lr. Steps beyond the end keep the last rate.
  /// Requires: step >= 0 (ContractViolation).
  double at(std::int64_t step) const;

  const LrScheduleOptions& options() const { return options_; }

 private:
  explicit LrSchedule(const LrScheduleOptions& options) : options_(options) {}

  LrScheduleOptions options_;
};

}  // namespace castor

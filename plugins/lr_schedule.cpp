// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/lr_schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include <castor/memory/text.h>

#include "value_checks.h"

namespace castor {
namespace {

using Options = LrScheduleOptions;
using Kind = LrScheduleKind;

/// A half cosine from 1 at x = 0 to 0 at x = 1.
double cosine_fall(double x) { return (1 + std::cos(std::numbers::pi * x)) / 2; }

/// x of the header. Requires: the step is not in the warm-up.
double share_behind(const Options& options, std::int64_t step) {
  const std::int64_t done = step - options.warmup_steps, all = options.decay_steps - options.warmup_steps;
  return done >= all ? 1 : static_cast<double>(done) / static_cast<double>(all);
}

/// `above_min` = 1 gives lr, 0 gives min_lr, both exactly: std::lerp keeps its ends.
double between(const Options& options, double above_min) { return std::lerp(options.min_lr, options.lr, above_min); }

double multistep(const Options& options, std::int64_t step) {
  const auto& stones = options.milestones;
  const auto n_passed = std::upper_bound(stones.begin(), stones.end(), step) - stones.begin();
  return options.lr * std::pow(options.gamma, static_cast<double>(n_passed));
}

/// The peak is at pct_start·n − 1, which need not be a whole step.
double onecycle(const Options& options, std::int64_t step) {
  const double first = options.lr / options.div_factor, last = first / options.final_div_factor;
  const auto n_steps = static_cast<double>(options.decay_steps);
  const double peak = options.pct_start * n_steps - 1, end = n_steps - 1;
  const double t = std::min(static_cast<double>(step), end);
  if (t > peak) return std::lerp(last, options.lr, cosine_fall((t - peak) / (end - peak)));
  return peak > 0 ? std::lerp(options.lr, first, cosine_fall(t / peak)) : options.lr;
}

bool decays_to_min(Kind kind) { return kind == Kind::linear || kind == Kind::cosine || kind == Kind::polynomial; }

Result<void> check_decay(const Options& o) {
  CASTOR_TRY(check_count(1, "decay_steps", o.decay_steps));
  const std::string few = "fewer than the decay's " + std::to_string(o.decay_steps) + " steps";
  CASTOR_TRY(check_value(o.warmup_steps < o.decay_steps, "warmup_steps", few, std::to_string(o.warmup_steps)));
  return check_value(o.min_lr >= 0 && o.min_lr <= o.lr, "min_lr",
                     "a number from 0 to the learning rate, " + shortest(o.lr), shortest(o.min_lr));
}

Result<void> check_gamma(double gamma) {
  return check_value(gamma > 0 && gamma <= 1, "gamma", "a number above 0, at most 1", shortest(gamma));
}

Result<void> check_milestones(const Options& options) {
  if (options.milestones.empty())
    return Error{ErrorKind::usage, "milestones takes at least one step, and there is none"};
  const std::int64_t first = std::max<std::int64_t>(1, options.warmup_steps);
  const std::string takes = "steps in ascending order, each once, from " + std::to_string(first) + " on";
  std::int64_t last = first - 1;
  for (const std::int64_t step : options.milestones) {
    CASTOR_TRY(check_value(step > last, "milestones", takes, std::to_string(step)));
    last = step;
  }
  return {};
}

Result<void> check_onecycle(const Options& o) {
  CASTOR_TRY(check_count(1, "decay_steps", o.decay_steps));
  CASTOR_TRY(
      check_value(o.pct_start >= 0 && o.pct_start <= 1, "pct_start", "a number from 0 to 1", shortest(o.pct_start)));
  CASTOR_TRY(check_at_least(1, "div_factor", o.div_factor));
  return check_at_least(1, "final_div_factor", o.final_div_factor);
}

Result<void> check(const Options& options) {
  CASTOR_TRY(check_at_least(0, "lr", options.lr));
  if (options.kind == Kind::onecycle) return check_onecycle(options);
  CASTOR_TRY(check_count(0, "warmup_steps", options.warmup_steps));
  if (decays_to_min(options.kind)) CASTOR_TRY(check_decay(options));
  if (options.kind == Kind::polynomial)
    CASTOR_TRY(check_value(std::isfinite(options.power) && options.power > 0, "power", "a number above 0",
                           shortest(options.power)));
  if (options.kind == Kind::multistep) CASTOR_TRY(check_milestones(options));
  return options.kind == Kind::multistep || options.kind == Kind::exponential ? check_gamma(options.gamma)
                                                                              : Result<void>();
}

double after_warmup(const Options& options, std::int64_t step) {
  switch (options.kind) {
    case Kind::constant: break;
    case Kind::linear: return between(options, 1 - share_behind(options, step));
    case Kind::cosine: return between(options, cosine_fall(share_behind(options, step)));
    case Kind::polynomial: return between(options, std::pow(1 - share_behind(options, step), options.power));
    case Kind::multistep: return multistep(options, step);
    case Kind::exponential:
      return options.lr * std::pow(options.gamma, static_cast<double>(step - options.warmup_steps));
    case Kind::onecycle: return onecycle(options, step);
  }
  return options.lr;
}

}  // namespace

Result<LrSchedule> LrSchedule::make(const LrScheduleOptions& options) {
  CASTOR_TRY(check(options));
  return LrSchedule(options);
}

double LrSchedule::at(std::int64_t step) const {
  if (step < 0) throw ContractViolation("the learning rate of step " + std::to_string(step) + "; steps count from 0");
  const bool warms_up = options_.kind != Kind::onecycle && step < options_.warmup_steps;
  if (!warms_up) return after_warmup(options_, step);
  return options_.lr * (static_cast<double>(step + 1) / static_cast<double>(options_.warmup_steps));
}

const char* name(LrScheduleKind kind) {
  constexpr const char* kNames[] = {"constant", "linear",     "cosine",     "multistep",
                                    "onecycle", "polynomial", "exponential"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace castor

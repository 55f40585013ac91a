// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/grad_scaler.h>

#include <algorithm>
#include <cmath>
#include <string>

#include <castor/memory/text.h>

#include "value_checks.h"

namespace castor {
namespace {

Result<void> check_scale(std::string_view name, double scale, const GradScalerOptions& options) {
  const std::string takes = "a number from " + shortest(options.min_scale) + " to " + shortest(options.max_scale);
  return check_value(scale >= options.min_scale && scale <= options.max_scale, name, takes, shortest(scale));
}

Result<void> check_range(std::string_view name, std::int64_t value, std::int64_t max) {
  return check_value(value >= 0 && value <= max, name, "a whole number from 0 to " + std::to_string(max),
                     std::to_string(value));
}

Result<void> check(const GradScalerOptions& o) {
  CASTOR_TRY(check_value(std::isfinite(o.growth_factor) && o.growth_factor > 1, "growth_factor", "a number above 1",
                         shortest(o.growth_factor)));
  CASTOR_TRY(check_value(o.backoff_factor > 0 && o.backoff_factor < 1, "backoff_factor", "a number above 0 and below 1",
                         shortest(o.backoff_factor)));
  CASTOR_TRY(check_count(1, "growth_interval", o.growth_interval));
  CASTOR_TRY(check_count(1, "hysteresis", o.hysteresis));
  CASTOR_TRY(check_value(std::isfinite(o.min_scale) && o.min_scale > 0, "min_scale", "a number above 0",
                         shortest(o.min_scale)));
  CASTOR_TRY(check_at_least(o.min_scale, "max_scale", o.max_scale));
  return check_scale("initial_scale", o.initial_scale, o);
}

}  // namespace

Result<DynamicGradScaler> DynamicGradScaler::make(const GradScalerOptions& options) {
  CASTOR_TRY(check(options));
  return DynamicGradScaler(options);
}

void DynamicGradScaler::update(bool overflow) {
  if (overflow) {
    back_off();
  } else if (++state_.growth_counter == options_.growth_interval) {
    grow();
  }
}

void DynamicGradScaler::grow() {
  state_.scale = std::min(options_.max_scale, state_.scale * options_.growth_factor);
  state_.growth_counter = 0;
  state_.hysteresis_left = options_.hysteresis;
}

void DynamicGradScaler::back_off() {
  state_.growth_counter = 0;
  state_.hysteresis_left = std::max<std::int64_t>(0, state_.hysteresis_left - 1);
  if (state_.hysteresis_left > 0) return;
  state_.scale = std::max(options_.min_scale, state_.scale * options_.backoff_factor);
}

Result<void> DynamicGradScaler::restore(const State& state) {
  CASTOR_TRY(check_scale("scale", state.scale, options_));
  CASTOR_TRY(check_range("growth_counter", state.growth_counter, options_.growth_interval - 1));
  CASTOR_TRY(check_range("hysteresis_left", state.hysteresis_left, options_.hysteresis));
  state_ = state;
  return {};
}

}  // namespace castor

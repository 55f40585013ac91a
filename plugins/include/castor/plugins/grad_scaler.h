// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/memory/result.h>

namespace castor {

/// Settings of a DynamicGradScaler; the names and defaults are those of Colossal-AI's class of that name. While all are
/// powers of two, scaling and unscaling round nothing.
struct GradScalerOptions {
  double initial_scale = 65536;         ///< 2^16; from min_scale to max_scale
  double growth_factor = 2;             ///< above 1
  double backoff_factor = 0.5;          ///< above 0, below 1
  std::int64_t growth_interval = 1000;  ///< good steps in a row before it grows, 1 or more
  std::int64_t hysteresis = 2;          ///< overflows since the last growth that make it back off, 1 or more
  double min_scale = 1;                 ///< above 0
  double max_scale = 4294967296.0;      ///< 2^32; finite
};

/// The factor that keeps fp16 gradients away from zero: grows while steps are good, backs off when gradients overflow.
///
/// An overflow ends the row of good steps. It lowers the scale when it is at least the `hysteresis`-th since the scale
/// last grew (or since the start): with 2, the first costs its step and no scale, and every one from the second on
/// lowers it. Growth resets that count. The scale stays from `min_scale` to `max_scale`.
/// Source: Micikevicius et al., "Mixed Precision Training", 2018, section 3.2; hysteresis as in Colossal-AI.
class DynamicGradScaler {
 public:
  /// All that changes from step to step.
  struct State {
    double scale = 0;
    std::int64_t growth_counter = 0;   ///< good steps in a row, below growth_interval
    std::int64_t hysteresis_left = 0;  ///< the overflow that makes this 0 lowers the scale, as do all after it
    bool operator==(const State&) const = default;
  };

  /// Errors: usage; the sentence begins with the name of the field that is wrong.
  static Result<DynamicGradScaler> make(const GradScalerOptions& options = {});

  /// The factor of the loss in the next step.
  double scale() const { return state_.scale; }
  /// Records how a step ended: `overflow` = its gradients held inf or nan, and it was skipped.
  void update(bool overflow);

  const GradScalerOptions& options() const { return options_; }
  const State& state() const { return state_; }
  /// Continues from `state` as the scaler with that state would have, given the same options. Errors: usage where a
  /// field is not within the range of these options; then nothing has changed.
  Result<void> restore(const State& state);

 private:
  explicit DynamicGradScaler(const GradScalerOptions& options)
      : options_(options), state_{options.initial_scale, 0, options.hysteresis} {}
  void grow();
  void back_off();

  GradScalerOptions options_;
  State state_;
};

}  // namespace castor

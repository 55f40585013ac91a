// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace castor::train {

/// The factor that keeps fp16 gradients away from zero: grows while steps are good, backs off when gradients overflow.
///
/// It doubles after 1000 good steps in a row, up to 2^32. An overflow halves it, down to 1, once `hysteresis`
/// overflows have come since it last grew: a single one costs its step and no scale. Every factor is a power of two,
/// so scaling and unscaling round nothing.
/// Source: Micikevicius et al., "Mixed Precision Training", 2018, section 3.2; the figures are Colossal-AI's defaults.
class LossScaler {
 public:
  static constexpr double kInitial = 65536, kGrowth = 2, kBackoff = 0.5, kMin = 1, kMax = 4294967296.0;
  static constexpr std::int64_t kGrowthInterval = 1000;
  static constexpr int kHysteresis = 2;

  /// What the loss is multiplied by in the step to come.
  double scale() const { return scale_; }
  /// Tells how a step ended: `skipped` = its gradients held inf or nan.
  void update(bool skipped);

 private:
  void grow();

  double scale_ = kInitial;
  std::int64_t n_good_ = 0;
  int hysteresis_left_ = kHysteresis;
};

}  // namespace castor::train

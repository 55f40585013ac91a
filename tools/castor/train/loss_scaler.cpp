// SPDX-License-Identifier: Apache-2.0
#include "loss_scaler.h"

#include <algorithm>

namespace castor::train {

void LossScaler::update(bool skipped) {
  if (!skipped) {
    if (++n_good_ == kGrowthInterval) grow();
    return;
  }
  n_good_ = 0;
  hysteresis_left_ = std::max(0, hysteresis_left_ - 1);
  if (hysteresis_left_ == 0) scale_ = std::max(kMin, scale_ * kBackoff);
}

void LossScaler::grow() {
  scale_ = std::min(kMax, scale_ * kGrowth);
  n_good_ = 0;
  hysteresis_left_ = kHysteresis;
}

}  // namespace castor::train

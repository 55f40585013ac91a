// SPDX-License-Identifier: Apache-2.0
#include "device_watch.h"

#include <algorithm>

namespace castor {
namespace {

/// Of the warm-up that are kept. One with more (evaluation with no step in sight) begins anew.
constexpr MomentIndex kMostPeriods = 1U << 18;

}  // namespace

void DeviceWatch::look() {
  castor_device_memory now{};
  if (!on_gpu_ || host_.device_memory(host_.self, &now) != CASTOR_OK) return;
  now_ = now;
  reserved_peak_bytes_ = std::max(reserved_peak_bytes_, now.reserved_peak);
}

void DeviceWatch::begin_unit() { begin_period(); }

void DeviceWatch::chunks_arrived() {
  if (warming_up_) collector_.set_model_bytes(chunks_.used_bytes());
}

void DeviceWatch::begin_rest() { begin_period(); }

void DeviceWatch::end_step() {
  look();
  if (!warming_up_) return;
  warming_up_ = false;
  warm_up_ = collector_.finish(now_.allocated_peak);
}

/// After the warm-up nobody asks for the peaks of single periods, and nothing is reset.
void DeviceWatch::begin_period() {
  look();
  if (!warming_up_) return;
  if (n_periods_ == kMostPeriods) {
    collector_.discard();
    n_periods_ = 0;
  }
  collector_.begin_period(n_periods_++, now_.allocated_peak, chunks_.used_bytes());
  host_.reset_device_peak(host_.self);
}

}  // namespace castor

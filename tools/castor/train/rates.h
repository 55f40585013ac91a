// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include <castor/memory/device.h>

#include "train/report.h"

namespace castor::train {

/// Measures the links that `record` shows were used, after the run, when they are idle: those of the device, and
/// `folders` with direct I/O. The rate of a link that was not used or cannot be measured stays empty. Takes up to a
/// second or two and writes up to 256 MiB to unnamed files, which are deleted before it returns.
Rates measure_rates(const TrainRecord& record, DeviceKind device, const std::vector<std::filesystem::path>& folders);

}  // namespace castor::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace castor::bench {

/// Returns true once the user has asked to stop.
using Stopped = std::function<bool()>;

}  // namespace castor::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace castor::bench {

/// Asked whether the user wants to stop.
using Stopped = std::function<bool()>;

}  // namespace castor::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trace.h"

namespace castor::memprof {

/// Lanes of one step over its seconds, as SVG: who computed, updated, copied, read, wrote and waited when, and how busy each
/// was. The step is that of last_whole_step(). Pure.
std::string step_picture(const Trace& trace);

}  // namespace castor::memprof

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/memprof/trace.h>

namespace castor::memprof {

/// An SVG of the lanes of one step over its seconds: when the threads and links computed, updated, copied, read, wrote
/// and waited, and how busy each was. The step is that of last_whole_step(). Pure.
std::string step_picture(const Trace& trace);

}  // namespace castor::memprof

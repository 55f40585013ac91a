// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/memprof/summary.h>

namespace castor::memprof {

/// An SVG of the bytes in use on each tier over the seconds of the run, with its budget. Pure.
std::string memory_picture(const Trace& trace, const Summary& summary);

}  // namespace castor::memprof

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/memprof/summary.h>

namespace castor::memprof {

/// One self-contained page: the picture of a step, that of memory, and the summary as tables. It is also well-formed
/// XML. Pure.
std::string to_html(const Trace& trace, const Summary& summary);

}  // namespace castor::memprof

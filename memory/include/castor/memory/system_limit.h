// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <castor/memory/result.h>

namespace castor {

/// The error of a call of the system that failed with `error_number` because a limit was reached: threads, open files,
/// memory. It names what ran out, the limits of this process, and how to raise them. Nothing for other numbers.
std::optional<Error> limit_error(int error_number);

}  // namespace castor

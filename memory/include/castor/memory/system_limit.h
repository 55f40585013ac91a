// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <system_error>

#include <castor/memory/result.h>

namespace castor {

/// The error of a call of the system that failed with `error_number` because a limit was reached: threads, open files,
/// memory. It names what ran out, the limits of this process, and how to raise them. Nothing for other numbers.
std::optional<Error> limit_error(int error_number);
/// The same for a call that throws, as starting a thread does; its own words where no limit was reached.
Error limit_or_failure(const std::system_error& refused);

/// Opens `n_files` more files and closes them again. Errors: that of limit_error, or failed.
Result<void> check_spare_files(int n_files);

}  // namespace castor

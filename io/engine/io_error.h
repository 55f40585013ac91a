// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <castor/io/io_request.h>
#include <castor/memory/result.h>

namespace castor {

/// The system's text for `error_number`: "No space left on device".
std::string errno_text(int error_number);

/// Advice about `error_number` on `path`: a clause to put behind a semicolon.
std::string errno_advice(int error_number, std::string_view path);

/// `request` ended with `error_number` after `done_bytes` of it had moved.
Error request_error(const IoRequest& request, std::uint64_t done_bytes, int error_number);

/// `request` stopped moving after `done_bytes` without an error: the end of the file for a read.
Error stalled_error(const IoRequest& request, std::uint64_t done_bytes);

/// A file or folder could not be opened, created or examined; `what` is the first clause: "cannot open /x".
Error path_error(std::string_view what, std::string_view path, int error_number);

}  // namespace castor

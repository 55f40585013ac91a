// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

namespace castor::sdk {

/// The kind that `status` means; failed for one that this version does not know. Requires: not CASTOR_OK.
ErrorKind kind_of(castor_status status);
castor_status status_of(ErrorKind kind);

/// `error` as it crosses; points into it.
castor_error crossing_error(const Error& error);
Error error_from(const castor_error& error);

/// The exception in flight as an Error. Requires: called in a catch block. `prefix` goes before the texts of exceptions
/// that are no Errors: "gemini: ".
Error current_error(const std::string& prefix);

/// The outcome of `body`, which returns a Result<void>; an exception becomes an Error as in current_error.
template <typename Body>
Result<void> contained(const std::string& prefix, const Body& body) {
  try {
    return body();
  } catch (...) {
    return current_error(prefix);
  }
}

}  // namespace castor::sdk

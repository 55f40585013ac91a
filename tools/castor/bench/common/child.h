// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <castor/memory/result.h>

namespace castor::bench {

struct ChildOutcome {
  int exit_code = 0;  ///< 128 + the signal if a signal ended the child
  std::string out;    ///< stdout
  std::string err;    ///< stderr
};

/// Runs a program to its end and collects its output; `more` are environment variables (NAME=VALUE) in addition to
/// those of this process. The child gets SIGTERM when this process ends, or once `stopped` (called ten times a second)
/// returns true.
/// Errors: failed if the program cannot be started; interrupted if `stopped` ended it.
Result<ChildOutcome> run_child(const std::vector<std::string>& command, const std::vector<std::string>& more,
                               const std::function<bool()>& stopped);

/// The program that a shell would start for `name`; "" if there is none.
std::string find_program(const std::string& name);

}  // namespace castor::bench

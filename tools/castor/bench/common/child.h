// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <castor/memory/result.h>

namespace castor::bench {

struct ChildOutcome {
  int exit_code = 0;  ///< 128 + the signal where one ended it
  std::string out;    ///< stdout
  std::string err;    ///< stderr
};

/// Runs a program to its end and collects what it says; `more` are variables of its environment (NAME=VALUE) besides
/// those of this process. It ends with this process, and soon after `stopped` says so
/// (asked ten times a second).
/// Errors: failed, where it cannot be started; interrupted, where `stopped` ended it.
Result<ChildOutcome> run_child(const std::vector<std::string>& command, const std::vector<std::string>& more,
                               const std::function<bool()>& stopped);

/// The program that a shell would start for `name`; "" where there is none.
std::string find_program(const std::string& name);

}  // namespace castor::bench

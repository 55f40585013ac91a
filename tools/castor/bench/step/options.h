// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <castor/memory/result.h>

#include "cli/cli.h"

namespace castor::bench {

/// The options of `castor bench step`.
struct StepBenchOptions {
  std::string model;
  std::vector<std::string> folders;        ///< of the drives that hold all optimizer states
  std::uint64_t host_budget_bytes = 0;     ///< for states, gradients and weights in flight
  std::map<std::string, std::string> set;  ///< more options of the plugin
  unsigned runs = 3;
  double seconds = 1;
  std::optional<std::string> trace;  ///< the trace file of the steps
  std::string fio = "fio";           ///< the program; "off" = never
};

/// Usage, text and options of `castor bench step`.
cli::CommandSyntax step_syntax();

/// Errors: usage, naming the option and the values it accepts.
Result<StepBenchOptions> read_step_options(const cli::Values& values);

}  // namespace castor::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli.h"
#include "output.h"

namespace castor::cli {

/// Each command reads its own arguments (those after its name), says what it found on `output` and returns the exit
/// code.
int run_check(const Arguments& arguments, Output& output);
int run_train(const Arguments& arguments, Output& output);
int run_bench(const Arguments& arguments, Output& output);
int run_estimate(const Arguments& arguments, Output& output);
int run_plan(const Arguments& arguments, Output& output);
int run_plugins(const Arguments& arguments, Output& output);
int run_memprof(const Arguments& arguments, Output& output);

/// Parses for a command: on `--help` or an error it has said everything and `exit_code` is set; else `values` are.
struct Parsed {
  std::optional<int> exit_code;
  Values values;
};
Parsed parse_command(const CommandSyntax& syntax, const Arguments& arguments, Output& output);

}  // namespace castor::cli

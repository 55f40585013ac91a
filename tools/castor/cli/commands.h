// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli.h"
#include "output.h"

namespace castor::cli {

/// Each command parses the arguments after its name, writes its results to `output` and returns the exit code.
int run_check(const Arguments& arguments, Output& output);
int run_train(const Arguments& arguments, Output& output);
int run_bench(const Arguments& arguments, Output& output);
int run_estimate(const Arguments& arguments, Output& output);
int run_plan(const Arguments& arguments, Output& output);
int run_plugins(const Arguments& arguments, Output& output);
int run_memprof(const Arguments& arguments, Output& output);

/// The parsed arguments of a command. After `--help` or an error the output is complete and `exit_code` is set;
/// otherwise `values` are.
struct Parsed {
  std::optional<int> exit_code;
  Values values;
};
Parsed parse_command(const CommandSyntax& syntax, const Arguments& arguments, Output& output);

}  // namespace castor::cli

// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "commands.h"
#include "memprof/render.h"

namespace castor::cli {
namespace {

CommandSyntax memprof_syntax() {
  CommandSyntax syntax(
      "castor memprof TRACE [options]",
      "Summarises a trace file of `castor train --trace F`: peaks per tier against their budgets, bytes\n"
      "and rate per link, waits by unit, the chunks that moved most, and what bound the run.\n"
      "docs/trace.md has the format.");
  syntax.options.add_options()("trace", boost::program_options::value<std::string>(), "the file");
  syntax.positional = {"trace"};
  return syntax;
}

}  // namespace

int run_memprof(const Arguments& arguments, Output& output) {
  const CommandSyntax syntax = memprof_syntax();
  const Parsed parsed = parse_command(syntax, arguments, output);
  if (parsed.exit_code) return *parsed.exit_code;
  const auto path = text_of(parsed.values, "trace");
  if (!path) return output.fail({ErrorKind::usage, "which trace? usage: " + syntax.usage});
  const auto trace = memprof::read_trace(*path);
  if (!trace) return output.fail(trace.error());
  const memprof::Summary summary = memprof::summarize(*trace);
  output.line(memprof::to_text(*trace, summary));
  output.result(memprof::to_json(*trace, summary));
  return 0;
}

}  // namespace castor::cli

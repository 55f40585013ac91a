// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <castor/io/whole_file.h>
#include <castor/memprof/html.h>
#include <castor/memprof/render.h>
#include <castor/memprof/summary_json.h>

#include "cli/commands.h"
#include "cli/files.h"

namespace castor::cli {
namespace {

CommandSyntax memprof_syntax() {
  CommandSyntax syntax(
      "castor memprof TRACE [options]",
      "Summarises a trace file of `castor train --trace F`: peaks per tier against their budgets, bytes\n"
      "and rate per link, waits by unit, the chunks that moved most, and the resource that limited the run.\n"
      "With --html it also draws one step, and memory over the run. docs/trace.md has the format.");
  auto add = syntax.options.add_options();
  add("trace", boost::program_options::value<std::string>(), "the file");
  add("html", boost::program_options::value<std::string>()->value_name("F"),
      "write a page for any browser: a timeline of one step (compute, updates, copies, waits), the memory of each "
      "tier over the run, and the summary");
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
  const auto html = text_of(parsed.values, "html");
  if (html)
    if (const auto free = check_outputs({.inputs = {{"TRACE", *path}}, .folders = {}, .outputs = {{"--html", *html}}});
        !free.ok())
      return output.fail(free.error());
  const auto trace = memprof::read_trace(*path);
  if (!trace) return output.fail(trace.error());
  const memprof::Summary summary = memprof::summarize(*trace);
  nlohmann::json result = memprof::to_json(*trace, summary);
  output.line(memprof::to_text(*trace, summary));
  if (html) {
    const auto written = write_whole_file(*html, memprof::to_html(*trace, summary));
    if (!written) return output.fail(written.error());
    output.line("\nThe picture of a step is in " + *html);
    result["html"] = *html;
  }
  output.result(result);
  return 0;
}

}  // namespace castor::cli

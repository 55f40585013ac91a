// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <castor/memprof/html.h>
#include <castor/memprof/render.h>
#include <castor/memprof/summary_json.h>

#include "cli/commands.h"

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

/// Errors: usage if the page would overwrite the trace; io.
Result<void> write_page(const std::string& path, const std::string& trace, const std::string& page) {
  std::error_code nowhere;
  if (std::filesystem::equivalent(path, trace, nowhere))
    return Error{ErrorKind::usage, "--html '" + path + "' is the trace itself; name another file for the page"};
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << page;
  file.close();
  if (!file)
    return Error{ErrorKind::io, "the page could not be written to '" + path +
                                    "': " + std::generic_category().message(errno != 0 ? errno : EIO) +
                                    "; name a file in a folder that can be written to"};
  return {};
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
  nlohmann::json result = memprof::to_json(*trace, summary);
  output.line(memprof::to_text(*trace, summary));
  if (const auto html = text_of(parsed.values, "html")) {
    const auto written = write_page(*html, *path, memprof::to_html(*trace, summary));
    if (!written) return output.fail(written.error());
    output.line("\nThe picture of a step is in " + *html);
    result["html"] = *html;
  }
  output.result(result);
  return 0;
}

}  // namespace castor::cli

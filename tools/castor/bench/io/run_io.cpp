// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <iostream>

#include <castor/memory/clock.h>

#include "io_bench.h"
#include "bench/common/machine.h"
#include "bench/common/run.h"
#include "bench/common/status_line.h"
#include "tune.h"
#include "cli/commands.h"
#include "cli/interrupt.h"

namespace castor::bench {
namespace {

using cli::InterruptGuard;
using cli::Output;
using nlohmann::json;

json head_json(const IoBenchOptions& options) {
  return {{"bench", "io"}, {"machine", machine_json()}, {"folders", options.folders}};
}

json to_json(const IoBenchOptions& options, const IoBench& bench, const IoReport& report) {
  json object = head_json(options);
  object.update({{"results", results_json(report)},
                 {"notes", report.notes},
                 {"engine", bench.engine_name()},
                 {"span_bytes", bench.span_bytes()},
                 {"seconds", options.seconds}});
  return object;
}

/// Measures case by case; after an error `report` holds the cases measured before it.
Result<void> measure_all(IoBench& bench, StatusLine& status, Output& output, IoReport& report) {
  output.line(table_head());
  for (const IoCase& one : bench.cases()) {
    auto result = bench.measure(one);
    status.clear();
    report.cache = bench.cache();
    report.notes = bench.notes();
    if (!result.ok()) return result.error();
    output.line(table_line(*result));
    report.results.push_back(std::move(*result));
  }
  return {};
}

int measure(const IoBenchOptions& options, Output& output) {
  StatusLine status(std::cerr, isatty(STDERR_FILENO) != 0);
  const InterruptGuard interrupts;
  const auto bench = IoBench::open(
      options, plan_cases(options), [&](const std::string& text) { status.show(text, steady_now_s()); },
      InterruptGuard::requested);
  if (!bench.ok()) return output.fail(bench.error());
  IoReport report;
  const auto measured = measure_all(**bench, status, output, report);
  for (const std::string& line : verdict(report)) output.line(line);
  const json object = to_json(options, **bench, report);
  if (!measured.ok()) return output.fail(measured.error(), object);
  output.result(object);
  return 0;
}

int tune(const IoBenchOptions& options, Output& output) {
  const InterruptGuard interrupts;
  json results = json::array();
  for (const std::string& folder : options.folders) {
    const auto tuned = tune_folder(folder, options, InterruptGuard::requested);
    if (!tuned.ok()) return output.fail(tuned.error());
    output.line(tuned_line(folder, *tuned));
    for (const json& result : tuned_json(folder, *tuned)) results.push_back(result);
  }
  json object = head_json(options);
  object["results"] = results;
  output.result(object);
  return 0;
}

}  // namespace

int run_io(const cli::Arguments& arguments, Output& output) {
  const cli::Parsed parsed = cli::parse_command(io_syntax(), arguments, output);
  if (parsed.exit_code) return *parsed.exit_code;
  const auto options = read_io_options(parsed.values);
  if (!options.ok()) return output.fail(options.error());
  return options->tune ? tune(*options, output) : measure(*options, output);
}

}  // namespace castor::bench

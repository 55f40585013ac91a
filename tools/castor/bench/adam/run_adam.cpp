// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <iostream>

#include <castor/memory/clock.h>
#include <castor/memory/host_cpus.h>

#include "bench/adam/adam_bench.h"
#include "bench/common/machine.h"
#include "bench/common/run.h"
#include "bench/common/status_line.h"
#include "cli/commands.h"
#include "cli/interrupt.h"

namespace castor::bench {
namespace {

using cli::InterruptGuard;
using cli::Output;
using nlohmann::json;

json to_json(const AdamBenchOptions& options, const AdamBench& bench, const std::vector<Figure>& figures) {
  json results = json::array();
  for (const Figure& figure : figures) results.push_back(figure_json(figure));
  return {{"bench", "adam"},
          {"machine", machine_json()},
          {"results", results},
          {"notes", bench.notes()},
          {"device", options.device == DeviceKind::cuda ? "cuda" : "cpu"},
          {"elements", options.n_elements},
          {"part_elements", options.part_elements},
          {"threads", options.threads},
          {"seconds", options.seconds}};
}

/// Measures case by case; after an error `figures` holds the cases measured before it.
Result<void> measure_all(AdamBench& bench, StatusLine& status, Output& output, std::vector<Figure>& figures) {
  output.line(figures_head());
  for (const AdamCase& one : bench.cases()) {
    auto figure = bench.measure(one);
    status.clear();
    if (!figure.ok()) return figure.error();
    output.line(figure_line(*figure));
    figures.push_back(std::move(*figure));
  }
  return {};
}

int measure(const AdamBenchOptions& options, Output& output) {
  StatusLine status(std::cerr, isatty(STDERR_FILENO) != 0);
  const InterruptGuard interrupts;
  const auto bench = AdamBench::open(
      options, [&](const std::string& text) { status.show(text, steady_now_s()); }, InterruptGuard::requested);
  status.clear();
  if (!bench.ok()) return output.fail(bench.error());
  std::vector<Figure> figures;
  const auto measured = measure_all(**bench, status, output, figures);
  for (const std::string& note : (*bench)->notes()) output.line(note);
  for (const std::string& line : figures_verdict(figures)) output.line(line);
  const json object = to_json(options, **bench, figures);
  if (!measured.ok()) return output.fail(measured.error(), object);
  output.result(object);
  return 0;
}

}  // namespace

int run_adam(const cli::Arguments& arguments, Output& output) {
  const cli::Parsed parsed = cli::parse_command(adam_syntax(), arguments, output);
  if (parsed.exit_code) return *parsed.exit_code;
  const auto options = read_adam_options(parsed.values, usable_cpus());
  return options.ok() ? measure(*options, output) : output.fail(options.error());
}

}  // namespace castor::bench

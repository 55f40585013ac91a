// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <iostream>

#include <castor/memory/bytes.h>
#include <castor/memory/clock.h>

#include "bench/common/machine.h"
#include "bench/common/run.h"
#include "bench/common/status_line.h"
#include "bench/step/step_bench.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/interrupt.h"

namespace castor::bench {
namespace {

using cli::InterruptGuard;
using cli::Output;
using nlohmann::json;

json to_json(const StepBenchOptions& options, const StepBench& bench, const std::vector<Figure>& figures) {
  json results = json::array();
  for (const Figure& figure : figures) results.push_back(figure_json(figure));
  return {{"bench", "step"},
          {"machine", machine_json()},
          {"results", results},
          {"notes", bench.notes()},
          {"folders", options.folders},
          {"model", options.model},
          {"params", bench.n_params()},
          {"nvme_bytes_per_step", bench.step_bytes()},
          {"host_budget_bytes", options.host_budget_bytes},
          {"seconds", options.seconds}};
}

cli::CommandFiles files_of(const StepBenchOptions& options) {
  cli::CommandFiles files;
  for (const std::string& folder : options.folders) files.folders.push_back({"--dir", folder});
  if (options.trace) files.outputs.push_back({"--trace", *options.trace});
  return files;
}

int measure(const StepBenchOptions& options, Output& output) {
  if (const auto free = cli::check_outputs(files_of(options)); !free.ok()) return output.fail(free.error());
  StatusLine status(std::cerr, isatty(STDERR_FILENO) != 0);
  const InterruptGuard interrupts;
  const auto show = [&](const std::string& text) { status.show(text, steady_now_s()); };
  const auto bench = StepBench::open(options, show, InterruptGuard::requested);
  status.clear();
  if (!bench.ok()) return output.fail(bench.error());
  output.line(options.model + ": " + std::to_string((*bench)->n_params()) + " parameters, " +
              format_bytes((*bench)->step_bytes()) + " over the drive a step");
  const auto figures = (*bench)->measure();
  status.clear();
  if (!figures.ok()) return output.fail(figures.error());
  output.line(figures_head());
  for (const Figure& figure : *figures) output.line(figure_line(figure));
  for (const std::string& note : (*bench)->notes()) output.line(note);
  for (const std::string& line : figures_verdict(*figures)) output.line(line);
  output.result(to_json(options, **bench, *figures));
  return 0;
}

}  // namespace

int run_step(const cli::Arguments& arguments, Output& output) {
  const cli::Parsed parsed = cli::parse_command(step_syntax(), arguments, output);
  if (parsed.exit_code) return *parsed.exit_code;
  const auto options = read_step_options(parsed.values);
  return options.ok() ? measure(*options, output) : output.fail(options.error());
}

}  // namespace castor::bench

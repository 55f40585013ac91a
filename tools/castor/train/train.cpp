// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <iostream>
#include <mutex>
#include <vector>

#include <castor/io/folder.h>
#include <castor/memory/bytes.h>
#include <castor/memory/clock.h>
#include <castor/memory/host_memory.h>
#include <castor/plugins/plugin_loader.h>
#include <castor/training/plugin_folders.h>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/process.h"
#include "train/progress.h"
#include "train/rates.h"
#include "train/trainer.h"

namespace castor::cli {
namespace {

using train::TrainOptions;
using train::TrainRecord;

/// On some machines MemAvailable grows when memory is touched, so this is a warning and not an error.
void warn_of_memory(const TrainOptions& options, Output& output) {
  const LimitedBytes available = host_memory().available;
  if (!options.host_budget || available.fits(*options.host_budget)) return;
  output.note(fmt::format("castor: warning: --host-budget {} is more than {}", format_bytes(*options.host_budget),
                          text_of_available(available)));
}

std::string losses_text(const TrainRecord& record) {
  std::string text = fmt::format("losses of the {} steps that ended:", record.losses.size());
  for (const double loss : record.losses) text += fmt::format(" {:.9g}", loss);
  return text;
}

/// Shows the losses of the completed steps of a failed run.
int fail_with_losses(const Error& error, const TrainRecord& record, Output& output) {
  if (!record.losses.empty()) output.line(losses_text(record));
  return output.fail(error, {{"losses", train::numbers_json(record.losses)}});
}

Result<void> train_with_progress(const TrainOptions& options, TrainRecord& record) {
  train::Progress progress(std::cerr, train::standard_error(), options.steps);
  std::mutex one_at_a_time;
  const auto note = [&](const std::string& line) {
    const std::lock_guard lock(one_at_a_time);
    progress.note(line);
  };
  const train::TrainObserver observer{
      InterruptGuard::requested,
      [&](const TrainRecord& now) {
        InterruptGuard::work_started();
        const std::lock_guard lock(one_at_a_time);
        progress.update(now, steady_now_s());
      },
      [&](std::int64_t n_steps, const SavedBytes& saved) { note(train::saved_line(n_steps, saved)); },
      [&](const std::string& warning) { note("castor: warning: " + warning); },
      [&](const std::string& sentence) { note("castor: " + sentence); }};
  const Result<void> done = train::run_training(options, observer, record);
  progress.finish();
  return done;
}

CommandFiles files_of(const TrainOptions& options) {
  CommandFiles files;
  if (!options.data.empty()) files.inputs.push_back({"--data", options.data});
  if (options.plugin.find('/') != std::string::npos) files.inputs.push_back({"--plugin", options.plugin});
  for (const auto& [option, folders] :
       {std::pair("--nvme", options.nvme), std::pair("--checkpoint", options.checkpoint),
        std::pair("--resume", options.resume), std::pair("--plugin", PluginLoader("", plugin_folders()).folders())})
    for (const auto& folder : folders) files.folders.push_back({option, folder});
  if (!options.trace.empty()) files.outputs.push_back({"--trace", options.trace});
  return files;
}

nlohmann::json report(const TrainOptions& options, const TrainRecord& record, const train::Rates& rates) {
  nlohmann::json object = train::report_json(record, rates);
  object["model"] = options.model;
  object["plugin"] = options.plugin;
  return object;
}

}  // namespace

int run_train(const Arguments& arguments, Output& output) {
  const InterruptGuard interrupts(InterruptGuard::Work::none, output.json());
  const Parsed parsed = parse_command(train::train_syntax(), arguments, output);
  if (parsed.exit_code) return *parsed.exit_code;
  const auto options = train::read_options(parsed.values);
  if (!options) return output.fail(options.error());
  const auto folders = check_folders(options->nvme);
  if (!folders.ok()) return output.fail(folders.error());
  if (const auto free = check_outputs(files_of(*options)); !free.ok()) return output.fail(free.error());
  warn_of_memory(*options, output);
  TrainRecord record;
  record.drive_bytes = space_of(options->nvme).value_or(FolderSpace{}).capacity_bytes;
  const Result<void> done = train_with_progress(*options, record);
  if (!done.ok()) return fail_with_losses(done.error(), record, output);
  const train::Rates rates = train::measure_rates(record, options->device, options->nvme);
  output.line(train::report_text(record, rates));
  output.result(report(*options, record, rates));
  return 0;
}

}  // namespace castor::cli

// SPDX-License-Identifier: Apache-2.0
#include "bench/step/step_bench.h"

#include <algorithm>

#include <castor/io/folder.h>
#include <castor/memory/bytes.h>
#include <castor/memory/clock.h>
#include <castor/memory/text.h>
#include <castor/plugins/booster.h>
#include <castor/plugins/plugin_loader.h>
#include <castor/training/plugin_folders.h>

#include "bench/common/child.h"
#include "bench/common/cpu_time.h"
#include "bench/common/files.h"
#include "cli/option_values.h"
#include "cli/torch_tag.h"
#include "forecast/estimate/request.h"

namespace castor::bench {
namespace {

/// The warm-up steps, the step that plans, and one that follows the plan.
constexpr int kFirstSteps = 4;
/// Bounds on the size of the ceiling's file, which is otherwise that of all states.
constexpr std::uint64_t kLeastSpanBytes = 64 * kMiB, kMostSpanBytes = 2 * kGiB;
/// The most memory that a bare loop moves in; no cache is larger.
constexpr std::uint64_t kMostMemoryBytes = 2 * kGiB;
constexpr double kWantedShare = 0.92;

/// Reads and writes in turn, in requests of a store's usual size and depth.
IoCase mixed_case(const StepBenchOptions& options, std::uint64_t memory_bytes) {
  IoCase one;
  one.rw = Rw::mixed;
  one.tensor_bytes = one.block_bytes = kUsualBlockBytes;
  one.depth = kUsualDepth;
  one.n_drives = static_cast<unsigned>(options.folders.size());
  one.memory_bytes = memory_bytes;
  return one;
}

}  // namespace

Result<std::unique_ptr<StepBench>> StepBench::open(const StepBenchOptions& options, Show show, Stopped stopped) {
  CASTOR_ASSIGN(RecordedStep recorded, estimates::record_model({.name = options.model, .batch = 1}));
  std::unique_ptr<StepBench> bench(new StepBench(options, std::move(recorded), std::move(show), std::move(stopped)));
  CASTOR_TRY(bench->open_store());
  bench->add_limits();
  CASTOR_TRY(bench->open_strategy());
  return bench;
}

Result<void> StepBench::open_strategy() {
  show_("placing " + std::to_string(n_params()) + " parameters");
  CASTOR_ASSIGN(const Plugin plugin, PluginLoader(torch_tag(), plugin_folders()).load("gemini"));
  PluginOptions values = options_.set;
  values["nvme"] = join_list(options_.folders);
  values["nvme_offload_fraction"] = "1";
  values["host_budget"] = std::to_string(options_.host_budget_bytes);
  CASTOR_ASSIGN(const Booster booster, Booster::make(plugin, values));
  CASTOR_ASSIGN(strategy_, booster.boost(model_));
  std::uint64_t before_bytes = 0;
  for (int i = 0; i < kFirstSteps; ++i) {
    CASTOR_ASSIGN(before_bytes, moved_bytes());
    CASTOR_TRY(model_.step(*strategy_));
  }
  CASTOR_ASSIGN(const std::uint64_t after_bytes, moved_bytes());
  step_bytes_ = after_bytes - before_bytes;
  return {};
}

/// Opened before the strategy, because the files of both are unnamed and the region takes all that are new.
Result<void> StepBench::open_store() {
  const IoCase one = mixed_case(options_, std::min(options_.host_budget_bytes, kMostMemoryBytes));
  SubjectOptions store;
  store.folders = options_.folders;
  store.span_bytes = align_up(std::clamp(12 * n_params(), kLeastSpanBytes, kMostSpanBytes), one.tensor_bytes);
  for (const std::string& folder : options_.folders) {
    CASTOR_ASSIGN(const std::uint64_t free_bytes, available_bytes(folder));
    store.span_bytes = std::min(store.span_bytes, align_up(free_bytes / 8, one.tensor_bytes));
  }
  CASTOR_ASSIGN(memory_, Buffer::allocate(
                             host_, std::max(StoreDriver::memory_bytes(shape_of(store, one)), one.in_flight_bytes())));
  show_("putting " + format_bytes(store.span_bytes) + " for the ceiling");
  CASTOR_ASSIGN(subject_, Subject::open(store, one, memory_.view(), stopped_));
  return {};
}

void StepBench::add_limits() {
  const std::string program = options_.fio == "off" ? "" : find_program(options_.fio);
  if (program.empty() && options_.fio != "off")
    notes_.push_back(options_.fio + " is not installed here, so a bare io_uring loop is the ceiling");
  auto best = program.empty() ? make_bare_ceiling(memory_.view(), stopped_)
                              : make_fio_ceiling({program}, options_.folders, stopped_);
  limits_.push_back({std::move(best), mixed_case(options_, 0), {}});
  limits_.push_back({make_bare_ceiling(memory_.view(), stopped_), mixed_case(options_, memory_.n_bytes()), {}});
  limits_[0].figure.name = "update of states on NVMe";
  limits_[1].figure.name = "in " + exact_size(memory_.n_bytes()) + " of memory";
  for (Limit& limit : limits_) limit.figure.wanted_share = kWantedShare;
}

Result<void> StepBench::write_trace() {
  return options_.trace ? strategy_->write_trace(options_.trace->c_str()) : Result<void>();
}

Result<std::uint64_t> StepBench::moved_bytes() {
  CASTOR_ASSIGN(const castor_stats stats, strategy_->stats());
  return stats.nvme_read_bytes + stats.nvme_write_bytes;
}

Result<Sample> StepBench::steps(double seconds) {
  CASTOR_ASSIGN(const std::uint64_t before_bytes, moved_bytes());
  const double cpu_s = cpu_time_s(), start_s = steady_now_s();
  do {
    CASTOR_TRY(model_.step(*strategy_));
    if (stopped_()) return Error{ErrorKind::interrupted, "stopped on request"};
  } while (steady_now_s() < start_s + seconds);
  CASTOR_ASSIGN(const std::uint64_t after_bytes, moved_bytes());
  return Sample{after_bytes - before_bytes, steady_now_s() - start_s, cpu_time_s() - cpu_s};
}

Result<std::optional<Sample>> StepBench::measure(Limit& limit) {
  if (!limit.ceiling) return std::optional<Sample>();
  show_(limit.ceiling->name());
  subject_->spoil();
  flush(subject_->region());
  CASTOR_ASSIGN(const Sample sample, limit.ceiling->measure(limit.how, subject_->region(), options_.seconds));
  return std::optional(sample);
}

/// Measures the ceilings forwards and backwards, so that a change of the drive's speed affects all of them.
Result<void> StepBench::round() {
  for (Limit& limit : limits_) {
    CASTOR_ASSIGN(limit.figure.rounds.emplace_back().ceiling, measure(limit));
  }
  show_("castor");
  CASTOR_TRY(model_.step(*strategy_));  // an untimed step, so that the timed ones do not depend on the state that the
                                        // ceiling left the drive in
  CASTOR_ASSIGN(const Sample ours, steps(options_.seconds));
  for (auto limit = limits_.rbegin(); limit != limits_.rend(); ++limit) {
    limit->figure.rounds.back().ours = ours;
    CASTOR_ASSIGN(limit->figure.rounds.back().ceiling_again, measure(*limit));
  }
  return {};
}

/// A ceiling that does not work here, such as a bare loop without io_uring, is left out.
Result<void> StepBench::settle_limits() {
  for (Limit& limit : limits_) {
    const double seconds = std::min(kMostSettlingS, options_.seconds);
    const auto settled = limit.ceiling->settle(limit.how, subject_->region(), seconds);
    if (!settled.ok() && settled.error().kind == ErrorKind::interrupted) return settled;
    if (settled.ok()) {
      limit.figure.ceiling_name = limit.ceiling->name();
      continue;
    }
    notes_.push_back("the " + limit.ceiling->program() + " cannot be a ceiling here: " + settled.error().message);
    limit.ceiling.reset();
  }
  return {};
}

Result<std::vector<Figure>> StepBench::measure() {
  CASTOR_TRY(settle_limits());
  for (unsigned i = 0; i < options_.runs; ++i) CASTOR_TRY(round());
  CASTOR_TRY(write_trace());
  std::vector<Figure> figures;
  for (Limit& limit : limits_) {
    if (limit.ceiling)
      for (const std::string& note : limit.ceiling->notes()) notes_.push_back(note);
    figures.push_back(std::move(limit.figure));
  }
  return figures;
}

}  // namespace castor::bench

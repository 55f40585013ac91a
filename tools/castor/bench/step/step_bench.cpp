// SPDX-License-Identifier: Apache-2.0
#include "bench/step/step_bench.h"

#include <algorithm>

#include <castor/io/folder.h>
#include <castor/memory/bytes.h>
#include <castor/memory/clock.h>
#include <castor/plugins/plugin_loader.h>

#include "bench/child.h"
#include "bench/cpu_time.h"
#include "bench/files.h"
#include "option_values.h"
#include "plugin_folders.h"
#include "torch_tag.h"

namespace castor::bench {
namespace {

/// Of the warm-up, the plan, and one that goes by it.
constexpr int kFirstSteps = 4;
/// Of the ceiling's file, which is else as large as whole states.
constexpr std::uint64_t kLeastSpanBytes = 64 * kMiB, kMostSpanBytes = 2 * kGiB;
constexpr double kWantedShare = 0.92;

/// Reads and writes in turn, in requests as a store makes them.
IoCase mixed_case(unsigned n_drives) {
  IoCase one;
  one.rw = Rw::mixed;
  one.tensor_bytes = one.block_bytes = kUsualBlockBytes;
  one.depth = kUsualDepth;
  one.n_drives = n_drives;
  return one;
}

}  // namespace

Result<std::unique_ptr<StepBench>> StepBench::open(const StepBenchOptions& options, Show show, Stopped stopped) {
  CASTOR_ASSIGN(const shapes::Model shape, shapes::model(options.model));
  std::unique_ptr<StepBench> bench(new StepBench(options, shape, std::move(show), std::move(stopped)));
  CASTOR_TRY(bench->open_ceiling());
  CASTOR_TRY(bench->open_strategy());
  return bench;
}

Result<void> StepBench::open_strategy() {
  show_("placing " + std::to_string(model_.n_params()) + " parameters");
  CASTOR_ASSIGN(const Plugin plugin, PluginLoader(torch_tag(), cli::plugin_folders()).load("gemini"));
  PluginOptions values = options_.set;
  values["nvme"] = cli::join(options_.folders, ",");
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

/// Before the strategy, whose files have no names either.
Result<void> StepBench::open_ceiling() {
  const IoCase one = mixed_case(static_cast<unsigned>(options_.folders.size()));
  SubjectOptions store;
  store.folders = options_.folders;
  store.span_bytes = align_up(std::clamp(12 * model_.n_params(), kLeastSpanBytes, kMostSpanBytes), one.tensor_bytes);
  for (const std::string& folder : options_.folders) {
    CASTOR_ASSIGN(const std::uint64_t free_bytes, available_bytes(folder));
    store.span_bytes = std::min(store.span_bytes, align_up(free_bytes / 8, one.tensor_bytes));
  }
  CASTOR_ASSIGN(memory_, Buffer::allocate(
                             host_, std::max(StoreDriver::memory_bytes(shape_of(store, one)), one.in_flight_bytes())));
  show_("putting " + format_bytes(store.span_bytes) + " for the ceiling");
  CASTOR_ASSIGN(subject_, Subject::open(store, one, memory_.view(), stopped_));
  const std::string program = options_.fio == "off" ? "" : find_program(options_.fio);
  if (program.empty())
    ceiling_ = make_bare_ceiling(memory_.view(), stopped_);
  else
    ceiling_ = make_fio_ceiling({program}, options_.folders, stopped_);
  if (program.empty() && options_.fio != "off")
    notes_.push_back(options_.fio + " is not installed here, so a bare io_uring loop is the ceiling");
  return {};
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

Result<Sample> StepBench::ceiling() {
  subject_->spoil();
  flush(subject_->region());
  return ceiling_->measure(mixed_case(static_cast<unsigned>(options_.folders.size())), subject_->region(),
                           options_.seconds);
}

Result<Round> StepBench::round() {
  Round done;
  show_(ceiling_->name());
  CASTOR_ASSIGN(done.ceiling, ceiling());
  show_("castor");
  CASTOR_TRY(model_.step(*strategy_));  // on the way again, whatever the drive was left with
  CASTOR_ASSIGN(done.ours, steps(options_.seconds));
  show_(ceiling_->name());
  CASTOR_ASSIGN(done.ceiling_again, ceiling());
  return done;
}

Result<Figure> StepBench::measure() {
  CASTOR_TRY(ceiling_->settle(mixed_case(static_cast<unsigned>(options_.folders.size())), subject_->region(),
                              std::min(kMostSettlingS, options_.seconds)));
  Figure figure;
  figure.name = "update of states on NVMe";
  figure.ceiling_name = ceiling_->name();
  figure.wanted_share = kWantedShare;
  for (unsigned i = 0; i < options_.runs; ++i) {
    CASTOR_ASSIGN(const Round done, round());
    figure.rounds.push_back(done);
  }
  for (const std::string& note : ceiling_->notes()) notes_.push_back(note);
  return figure;
}

}  // namespace castor::bench

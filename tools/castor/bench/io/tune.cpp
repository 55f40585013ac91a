// SPDX-License-Identifier: Apache-2.0
#include "tune.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

#include <castor/io/folder.h>
#include <castor/memory/host_resource.h>

#include "burst.h"
#include "cases.h"
#include "bench/common/pattern.h"
#include "tried.h"

namespace castor::bench {
namespace {

using Settings = std::vector<std::uint64_t>;

constexpr std::uint64_t kSpanBytes = 256 * kMiB, kLargestBlock = 4 * kMiB, kMostInFlight = 64 * kMiB;
constexpr double kBurstSeconds = 0.03;
constexpr unsigned kStartDepth = 16, kStartThreads = 4;

HostResource host;

/// The search on one drive.
class Tuner {
 public:
  static Result<Tuner> open(const std::string& folder, EngineChoice engine, std::function<bool()> stopped);

  Result<IoTuning> run();

 private:
  Tuner(DirectFile file, Buffer memory, EngineChoice engine, std::function<bool()> stopped)
      : file_(std::move(file)), memory_(std::move(memory)), choice_(engine), stopped_(std::move(stopped)) {}

  Result<void> make_engine();
  Result<double> burst(IoOp op);
  Result<void> try_once(Tried& tried);
  template <typename Set>
  Result<void> search(Settings settings, std::uint64_t bytes_per_unit, Set set);
  void remember(const Tried& best);

  DirectFile file_;
  Buffer memory_;  ///< as large as the file
  EngineChoice choice_;
  std::function<bool()> stopped_;
  std::unique_ptr<IoEngine> engine_;
  IoTuning tuning_{kUsualBlockBytes, kStartDepth, kStartThreads, 0, 0};
};

Result<Tuner> Tuner::open(const std::string& folder, EngineChoice engine, std::function<bool()> stopped) {
  CASTOR_ASSIGN(const std::uint64_t free, available_bytes(folder));
  const std::uint64_t span = std::min(kSpanBytes, free / 2 / kLargestBlock * kLargestBlock);
  if (span < kMostInFlight)
    return Error{ErrorKind::does_not_fit, "tuning needs " + format_bytes(2 * kMostInFlight) + " of room or more, and " +
                                              folder + " has " + format_bytes(free) +
                                              "; make room or name another folder"};
  CASTOR_ASSIGN(DirectFile file, DirectFile::create_unnamed(folder));
  CASTOR_TRY(file.reserve(0, span));
  CASTOR_ASSIGN(Buffer memory, Buffer::allocate(host, span));
  fill_pattern(memory.view(), 0, 0);
  return Tuner(std::move(file), std::move(memory), engine, std::move(stopped));
}

Result<void> Tuner::make_engine() {
  IoEngineOptions options;
  options.choice = choice_;
  options.n_threads = tuning_.n_threads;
  CASTOR_ASSIGN(engine_, make_io_engine(options));
  return {};
}

Result<double> Tuner::burst(IoOp op) {
  return run_burst(*engine_, file_, memory_.view().n_bytes, memory_.view(),
                   {op, tuning_.block_bytes, tuning_.depth, kBurstSeconds});
}

Result<void> Tuner::try_once(Tried& tried) {
  if (stopped_()) return Error{ErrorKind::interrupted, "stopped on request; nothing was saved"};
  CASTOR_ASSIGN(const double write, burst(IoOp::write));
  CASTOR_ASSIGN(const double read, burst(IoOp::read));
  tried.write_bytes_per_s += write / 2;
  tried.read_bytes_per_s += read / 2;
  return {};
}

/// Tries all `settings` forwards and backwards, so that a drift of the drive's speed favours none. Each unit of a
/// setting has `bytes_per_unit` in flight; settings with too many bytes in flight for a short burst are left out,
/// because the burst also waits for the requests in flight at its end.
template <typename Set>
Result<void> Tuner::search(Settings settings, std::uint64_t bytes_per_unit, Set set) {
  const std::uint64_t most = std::max(std::min(kMostInFlight, memory_.view().n_bytes) / bytes_per_unit, settings[0]);
  settings.erase(std::upper_bound(settings.begin(), settings.end(), most), settings.end());
  std::vector<Tried> tried;
  for (const std::uint64_t setting : settings) tried.push_back({setting, 0, 0});
  std::vector<std::size_t> order(2 * tried.size());
  std::iota(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(tried.size()), std::size_t{0});
  std::copy(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(tried.size()), order.rbegin());
  for (const std::size_t i : order) {
    CASTOR_TRY(set(tried[i].setting));
    CASTOR_TRY(try_once(tried[i]));
  }
  const Tried best = smallest_good(tried);
  remember(best);
  return set(best.setting);
}

void Tuner::remember(const Tried& best) {
  tuning_.read_bytes_per_s = static_cast<std::uint64_t>(best.read_bytes_per_s);
  tuning_.write_bytes_per_s = static_cast<std::uint64_t>(best.write_bytes_per_s);
}

Result<IoTuning> Tuner::run() {
  const auto set_depth = [&](std::uint64_t depth) {
    return tuning_.depth = static_cast<unsigned>(depth), Result<void>();
  };
  const auto set_block = [&](std::uint64_t n_bytes) { return tuning_.block_bytes = n_bytes, Result<void>(); };
  const auto set_threads = [&](std::uint64_t n) { return tuning_.n_threads = static_cast<unsigned>(n), make_engine(); };
  const Settings depths = {4, 8, 16, 32, 64};
  CASTOR_TRY(make_engine());
  CASTOR_TRY(engine_->submit(file_.write_request(0, memory_.view())).wait());  // unwritten bytes would read too fast
  if (engine_->name() == "threads") CASTOR_TRY(search({1, 2, 4, 8, 16}, tuning_.block_bytes, set_threads));
  CASTOR_TRY(search(depths, tuning_.block_bytes, set_depth));
  CASTOR_TRY(search({256 * kKiB, 512 * kKiB, kMiB, 2 * kMiB, kLargestBlock}, tuning_.depth, set_block));
  if (tuning_.block_bytes != kUsualBlockBytes) CASTOR_TRY(search(depths, tuning_.block_bytes, set_depth));
  return tuning_;
}

nlohmann::json entry(const std::string& name, double value, const char* unit) {
  return {{"name", name},     {"value", value}, {"unit", unit},   {"ceiling", nullptr}, {"ceiling_name", nullptr},
          {"share", nullptr}, {"min", nullptr}, {"max", nullptr}, {"runs", 1}};
}

}  // namespace

Result<IoTuning> tune_folder(const std::string& folder, const IoBenchOptions& options,
                             const std::function<bool()>& stopped) {
  CASTOR_ASSIGN(const EngineChoice engine, parse_engine_choice(options.engine));
  if (engine == EngineChoice::null)
    return Error{ErrorKind::usage,
                 "--tune cannot be combined with --engine null, which moves no byte; name another engine"};
  CASTOR_ASSIGN(Tuner tuner, Tuner::open(folder, engine, stopped));
  CASTOR_ASSIGN(const IoTuning tuning, tuner.run());
  CASTOR_TRY(save_tuning(folder, tuning));
  return tuning;
}

std::string tuned_line(const std::string& folder, const IoTuning& tuning) {
  return fmt::format("{}: requests of {}, {} in flight{}; read {:.2f} GB/s, write {:.2f} GB/s; saved in {}", folder,
                     exact_size(tuning.block_bytes), tuning.depth,
                     fmt::format(", {} threads where there is no io_uring", tuning.n_threads),
                     static_cast<double>(tuning.read_bytes_per_s) / 1e9,
                     static_cast<double>(tuning.write_bytes_per_s) / 1e9, io_tuning_path().string());
}

nlohmann::json tuned_json(const std::string& folder, const IoTuning& tuning) {
  const auto in_folder = [&](const char* what) { return std::string(what) + " in " + folder; };
  return {entry(in_folder("block"), static_cast<double>(tuning.block_bytes), "B"),
          entry(in_folder("depth"), tuning.depth, "requests"), entry(in_folder("threads"), tuning.n_threads, "threads"),
          entry(in_folder("read"), static_cast<double>(tuning.read_bytes_per_s) / 1e9, "GB/s"),
          entry(in_folder("write"), static_cast<double>(tuning.write_bytes_per_s) / 1e9, "GB/s")};
}

}  // namespace castor::bench

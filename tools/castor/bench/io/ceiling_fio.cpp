// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

#include "ceiling.h"
#include "bench/common/child.h"
#include "bench/common/files.h"
#include "fio_format.h"

namespace castor::bench {
namespace {

/// One way to run fio; kRungs lists the best first.
struct Rung {
  bool same_files;
  const char* engine;
  bool registered_memory;
};
constexpr std::array<Rung, 6> kRungs = {{{true, "io_uring", true},
                                         {true, "io_uring", false},
                                         {true, "libaio", false},
                                         {false, "io_uring", true},
                                         {false, "io_uring", false},
                                         {false, "libaio", false}}};

/// The first line of a program's error output, without the prefix `fio: `.
std::string first_line(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.rfind("fio: ", 0) == 0 ? line.substr(5) : line;
}

class FioCeiling final : public Ceiling {
 public:
  FioCeiling(std::vector<std::string> command, std::vector<std::string> folders, Stopped stopped)
      : command_(std::move(command)), folders_(std::move(folders)), stopped_(std::move(stopped)) {}

  std::string program() const override { return version_; }
  std::vector<std::string> notes() const override;

 private:
  Result<Sample> measure_at(Pace pace, const IoCase& one, const Region& region, double seconds) override;
  Result<Sample> try_rung(Pace pace, const IoCase& one, const Region& region, double seconds);
  Result<FioFiles> files_for(const Rung& rung, const Region& region);
  Result<Sample> run(const FioMode& mode, const FioFiles& files, const IoCase& one, double seconds);

  const std::vector<std::string> command_;
  const std::vector<std::string> folders_;
  const Stopped stopped_;
  std::size_t rung_ = 0;  ///< only increases
  std::string reason_;    ///< why the first rung failed
  std::string version_ = "fio";
  std::optional<NamedFiles> beside_;
  std::uint64_t beside_bytes_ = 0;
};

Result<Sample> FioCeiling::measure_at(Pace pace, const IoCase& one, const Region& region, double seconds) {
  while (true) {
    auto sample = try_rung(pace, one, region, seconds);
    if (sample.ok() || sample.error().kind == ErrorKind::interrupted) return sample;
    if (reason_.empty()) reason_ = sample.error().message;
    if (rung_ + 1 == kRungs.size()) return sample;
    ++rung_;
  }
}

Result<Sample> FioCeiling::try_rung(Pace pace, const IoCase& one, const Region& region, double seconds) {
  const Rung& rung = kRungs[rung_];
  CASTOR_ASSIGN(const FioFiles files, files_for(rung, region));
  return run({rung.engine, rung.registered_memory, region.direct, pace}, files, one, seconds);
}

/// Files beside the store's are written once in full, because a drive reads unwritten bytes at no cost.
Result<FioFiles> FioCeiling::files_for(const Rung& rung, const Region& region) {
  FioFiles files{{}, region.file_bytes};
  if (rung.same_files) {
    for (const int fd : region.files)
      files.paths.push_back("/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd));
    return files;
  }
  const bool is_new = !beside_ || beside_bytes_ != region.file_bytes;
  if (is_new) {
    beside_.reset();
    CASTOR_ASSIGN(beside_, NamedFiles::create(folders_, region.file_bytes));
    beside_bytes_ = region.file_bytes;
  }
  files.paths = beside_->paths();
  const IoCase whole{Rw::write, kMiB, kMiB, kUsualDepth};
  if (is_new) CASTOR_TRY(run({rung.engine, rung.registered_memory, region.direct}, files, whole, 0));
  return files;
}

Result<Sample> FioCeiling::run(const FioMode& mode, const FioFiles& files, const IoCase& one, double seconds) {
  std::vector<std::string> command = fio_arguments(mode, files, one, seconds);
  command.insert(command.begin(), command_[0]);
  command.insert(command.end(), command_.begin() + 1, command_.end());
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  CASTOR_ASSIGN(const ChildOutcome said, run_child(command, {fio_environment(tunables ? tunables : "")}, stopped_));
  if (said.exit_code != 0)
    return Error{ErrorKind::failed,
                 "fio ended with exit status " + std::to_string(said.exit_code) + ": " + first_line(said.err)};
  CASTOR_ASSIGN(const FioReport report, parse_fio(said.out));
  version_ = report.version;
  return report.sample;
}

std::vector<std::string> FioCeiling::notes() const {
  if (rung_ == 0) return {};
  const Rung& rung = kRungs[rung_];
  std::string how = std::string("fio runs with ") + rung.engine;
  if (!rung.registered_memory) how += " without registered memory";
  if (!rung.same_files) how += " on files beside the store's, which may be in faster or slower places of the drive";
  return {how + ", because otherwise: " + reason_};
}

}  // namespace

std::unique_ptr<Ceiling> make_fio_ceiling(std::vector<std::string> command, std::vector<std::string> folders,
                                          Stopped stopped) {
  return std::make_unique<FioCeiling>(std::move(command), std::move(folders), std::move(stopped));
}

}  // namespace castor::bench

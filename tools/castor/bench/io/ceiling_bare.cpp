// SPDX-License-Identifier: Apache-2.0
#include <castor/io/bare_loop.h>

#include <algorithm>
#include <utility>

#include "ceiling.h"
#include "bench/common/cpu_time.h"

namespace castor::bench {
namespace {

unsigned read_percent(Rw rw) { return rw == Rw::read ? 100 : rw == Rw::write ? 0 : 50; }

class BareCeiling final : public Ceiling {
 public:
  BareCeiling(BufferView memory, Stopped stopped) : memory_(memory), stopped_(std::move(stopped)) {}

  std::string program() const override { return "bare io_uring loop"; }
  std::vector<std::string> notes() const override;

 private:
  Result<Sample> measure_at(Pace pace, const IoCase& one, const Region& region, double seconds) override;

  const BufferView memory_;
  const Stopped stopped_;
  bool unregistered_ = false;
};

Result<Sample> BareCeiling::measure_at(Pace pace, const IoCase& one, const Region& region, double seconds) {
  const double cpu_begin_s = cpu_time_s();
  const BareLoopJob job{region.files,
                        region.file_bytes,
                        one.request_bytes(),
                        one.total_depth(),
                        read_percent(one.rw),
                        one.random,
                        pace == Pace::in_batches,
                        seconds,
                        memory_.part(0, std::max(one.in_flight_bytes(), one.memory_bytes))};
  CASTOR_ASSIGN(const BareLoopOutcome outcome, run_bare_loop(job, stopped_));
  unregistered_ = unregistered_ || !outcome.registered_memory;
  return Sample{outcome.read_bytes + outcome.written_bytes, outcome.seconds, cpu_time_s() - cpu_begin_s};
}

std::vector<std::string> BareCeiling::notes() const {
  if (!unregistered_) return {};
  return {"the bare loop runs without registered memory, which the memlock limit is too small for (ulimit -l)"};
}

}  // namespace

std::unique_ptr<Ceiling> make_bare_ceiling(BufferView memory, Stopped stopped) {
  return std::make_unique<BareCeiling>(memory, std::move(stopped));
}

}  // namespace castor::bench

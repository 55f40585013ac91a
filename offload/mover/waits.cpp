// SPDX-License-Identifier: Apache-2.0
#include "waits.h"

#include <chrono>
#include <cstdio>

namespace castor {
namespace {

/// Interval at which a waiting thread advances planned moves and checks its limits: well below the time that a tile
/// takes over a drive.
constexpr auto kLongestPause = std::chrono::microseconds(500);

/// True of reads and writes of a drive, of jobs of the team and of copies by threads of the host.
bool is_of_host(const Event& work) { return dynamic_cast<const HostEventState*>(work.state()) != nullptr; }

}  // namespace

template <typename Wait>
auto Waits::during(const Wait& wait) {
  guide_->wait_begins();
  waiting_ = true;
  start_ns_ = parts_.timeline.now_ns();
  auto outcome = wait();
  const std::uint64_t end_ns = parts_.timeline.now_ns();
  parts_.timeline.record({.lane = Lane::wait, .id = number(unit_), .start_ns = start_ns_, .end_ns = end_ns});
  total_ns_ += end_ns - start_ns_;
  waiting_ = false;
  guide_->wait_ends();
  return outcome;
}

Result<void> Waits::check(const std::string& awaited) const {
  if (parts_.limits.interrupted && parts_.limits.interrupted())
    return Error{ErrorKind::interrupted, "interrupted while the training waited for " + awaited};
  if (parts_.limits.longest.count() == 0) return {};
  const std::chrono::nanoseconds waited(parts_.timeline.now_ns() - start_ns_);
  if (waited < parts_.limits.longest) return {};
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", std::chrono::duration<double>(waited).count());
  return Error{ErrorKind::io, std::string("the training gave up after it had waited ") + seconds + " for " + awaited +
                                  "; the drive or the device hangs: check it, or raise io_timeout if it is only slow"};
}

Result<void> Waits::for_arrival(ChunkId chunk, Tier tier, bool all_have_room) {
  const Event arrived = parts_.chunks.chunk(chunk).at(tier).arrived;
  if (arrived.ready()) return arrived.wait();
  return during([&]() -> Result<void> {
    if (tier == Tier::device) return parts_.chunks.join(chunk);
    while (!arrived.wait_for(kLongestPause)) {
      CASTOR_TRY(check(parts_.chunks.chunk(chunk).label));
      for (const Tier other : {Tier::device, Tier::host}) CASTOR_TRY(parts_.chunks.reap(other));
      parts_.planned.advance();
      if (all_have_room) CASTOR_TRY(parts_.planned.start_fetches());
    }
    return arrived.wait();
  });
}

Result<std::uint64_t> Waits::for_leaving(Tier tier) {
  return during([&]() -> Result<std::uint64_t> {
    while (true) {
      CASTOR_ASSIGN(const std::uint64_t freed_bytes, parts_.chunks.reap(tier));
      if (freed_bytes > 0 || !parts_.chunks.memory().wait_for_leaving(tier, kLongestPause)) return freed_bytes;
      CASTOR_TRY(check(std::string("room in the ") + name(tier) + " tier"));
      parts_.planned.advance(tier);
    }
  });
}

Result<void> Waits::for_compute() {
  return during([&]() -> Result<void> {
    const Event reached = parts_.compute.record();
    while (!reached.wait_for(kLongestPause)) CASTOR_TRY(check("the compute stream"));
    return reached.wait();
  });
}

Result<void> Waits::for_host(const Event& work, const std::string& awaited) {
  if (work.ready() || !is_of_host(work)) return {};
  return until([&work](std::chrono::nanoseconds limit) { return work.wait_for(limit); }, awaited);
}

Result<void> Waits::until(const std::function<bool(std::chrono::nanoseconds)>& ended_within,
                          const std::string& awaited) {
  const auto wait = [&]() -> Result<void> {
    while (!ended_within(kLongestPause)) CASTOR_TRY(check(awaited));
    return {};
  };
  if (ended_within(std::chrono::nanoseconds(0))) return {};
  return waiting_ ? wait() : during(wait);
}

/// Settles every chunk, also after a failure: a chunk whose write failed is then current on the host alone.
Result<void> Waits::for_write_back(std::span<const ChunkId> chunks) {
  return during([&]() -> Result<void> {
    Result<void> outcome;
    for (const ChunkId id : chunks) {
      const ChunkCopy& copy = parts_.chunks.chunk(id).at(Tier::host);
      while (!copy.quiet()) {
        copy.wait_for_one(kLongestPause);
        CASTOR_TRY(check(parts_.chunks.chunk(id).label));
      }
      if (auto written = parts_.chunks.settle(id, Tier::host); outcome.ok()) outcome = std::move(written);
    }
    return outcome;
  });
}

}  // namespace castor

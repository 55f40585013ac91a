// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <castor/engine/forecast.h>
#include <castor/engine/machine.h>
#include <castor/memory/device.h>
#include <castor/memory/host_resource.h>
#include <castor/memory/host_team.h>
#include <castor/plan/step_estimate.h>
#include <castor/schedule/virtual_links.h>
#include <castor/schedule/virtual_memory.h>
#include <castor/schedule/virtual_team.h>

#include "virtual_bus.h"

namespace castor {

/// Addresses alone for chunks; the little memory that norms and ratios are written to is real. To allocate a byte takes
/// the thread `seconds_per_byte`, and no time where blocks are made of the pages of others.
class HollowMemory final : public MemoryResource {
 public:
  HollowMemory(VirtualClock& clock, double seconds_per_byte) : clock_(clock), seconds_per_byte_(seconds_per_byte) {}

  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;
  Result<void> exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) override;

 private:
  Result<void*> take(std::uint64_t n_bytes) {
    return n_bytes <= kMostRealBytes ? real_.allocate(n_bytes) : addresses_.allocate(n_bytes);
  }
  void pass(std::uint64_t fresh_bytes) { clock_.pass(static_cast<double>(fresh_bytes) * seconds_per_byte_); }

  static constexpr std::uint64_t kMostRealBytes = 1 << 20;  ///< larger blocks hold chunks

  VirtualClock& clock_;
  const double seconds_per_byte_;
  HostResource real_;
  VirtualMemory addresses_;
};

/// A GPU's pages that are addresses alone.
class HollowPages final : public PageSource {
 public:
  std::uint64_t grain_bytes() const override { return 2 << 20; }
  Result<Page> create(std::uint64_t) override { return Page{++n_created_}; }
  void destroy(Page) noexcept override {}
  Result<void*> map(std::span<const Page> pages, std::uint64_t page_bytes) override {
    return addresses_.allocate(pages.size() * page_bytes);
  }
  void unmap(void*, std::uint64_t) noexcept override {}

 private:
  VirtualMemory addresses_;
  std::uint64_t n_created_ = 0;
};

/// A machine of virtual time for one engine.
class VirtualRig {
 public:
  explicit VirtualRig(const ForecastMachine& machine);
  VirtualRig(const VirtualRig&) = delete;
  VirtualRig& operator=(const VirtualRig&) = delete;

  /// The parts that the engine asks for; borrows this. `nvme`: there is a drive below the host.
  Machine parts(bool nvme);

  /// A step has ended: as far as they ran beside one another in it, copies slow updates on the host down in the next, and
  /// these updates the model's operations.
  void end_step(const StepEstimate& step);

  /// The model computes.
  void compute(double flops) { work(flops / machine_.flops_per_s * compute_slowdown_); }
  /// Waits until the device has done all its work.
  void join() { (void)compute_.synchronize(); }

  double now_s() const { return clock_.now_s(); }
  /// Seconds that the compute stream, and the team that updates, have worked so far.
  double busy_s() const { return busy_s_; }
  double updates_s() const { return device_updates_s_ + team_s_; }
  double team_s() const { return team_s_; }

 private:
  class Gpu;
  class ComputeStream;
  class LinkStream;
  template <Event (VirtualBus::*copied)(std::uint64_t)>
  class BusStream;
  class Team;
  class Drive;

  void work(double seconds) { compute_.run(seconds), busy_s_ += seconds; }

  const ForecastMachine machine_;
  VirtualClock clock_;
  VirtualStream compute_{clock_, 0};
  VirtualTeam team_{clock_};
  VirtualBus bus_;
  VirtualDrive drive_;
  HollowMemory device_memory_, host_memory_;
  double update_slowdown_ = 1, compute_slowdown_ = 1;  ///< in the step under way: of updates on the host, of operations
  double busy_s_ = 0, device_updates_s_ = 0, team_s_ = 0;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "virtual_device.h"

#include <algorithm>
#include <map>
#include <utility>

#include <castor/memory/bytes.h>
#include <castor/plan/stream_share.h>

namespace castor {
namespace {

/// Host memory that a GPU copies to is pinned when it is taken: 14 MiB took 4 ms beside one H200 (docs/planning.md).
/// Thus the thread does not run far ahead of the device in the first step, in which it takes most of that memory.
constexpr double kSecondsPerPinnedByte = 4e-3 / (14 << 20);

/// Of work that takes `times` as long in a part of the time that it takes, over that without.
double slowdown(double part, double times) { return 1 / (1 - part + part / times); }

}  // namespace

Result<void*> HollowMemory::allocate(std::uint64_t n_bytes) {
  pass(n_bytes);
  return take(n_bytes);
}

Result<void> HollowMemory::exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) {
  const std::uint64_t given_bytes = total_bytes(blocks);
  for (const MemoryBlock& block : blocks) deallocate(block.data, block.n_bytes);
  blocks.clear();
  for (const std::uint64_t n_bytes : sizes) {
    CASTOR_ASSIGN(void* const data, take(n_bytes));
    blocks.push_back({data, n_bytes});
  }
  const std::uint64_t taken_bytes = total_bytes(blocks);
  pass(saturating_sub(taken_bytes, given_bytes));
  return {};
}

void HollowMemory::deallocate(void* data, std::uint64_t n_bytes) noexcept {
  if (n_bytes <= kMostRealBytes) real_.deallocate(data, n_bytes);
}

/// A stream of the rig, as the engine owns it.
class VirtualRig::LinkStream : public Stream {
 public:
  explicit LinkStream(VirtualStream& stream) : stream_(stream) {}
  Event copy(void* target, const void* source, std::uint64_t n_bytes) override {
    return stream_.copy(target, source, n_bytes);
  }
  Result<void> wait(const Event& event) override { return stream_.wait(event); }
  Event record() override { return stream_.record(); }
  std::unique_ptr<StreamTime> time() override { return stream_.time(); }
  Result<void> synchronize() override { return stream_.synchronize(); }

 private:
  VirtualStream& stream_;
};

/// One way of the bus.
template <Event (VirtualBus::*copied)(std::uint64_t)>
class VirtualRig::BusStream final : public LinkStream {
 public:
  BusStream(VirtualBus& bus, VirtualStream& way) : LinkStream(way), bus_(bus) {}
  Event copy(void*, const void*, std::uint64_t n_bytes) override { return (bus_.*copied)(n_bytes); }

 private:
  VirtualBus& bus_;
};

/// The stream that the model and the updates on the device run on.
class VirtualRig::ComputeStream final : public LinkStream {
 public:
  explicit ComputeStream(VirtualRig& rig) : LinkStream(rig.compute_), rig_(rig) {}
  void touch(std::uint64_t n_bytes) override {
    const double seconds = static_cast<double>(n_bytes) / rig_.machine_.device_update_bytes_per_s;
    rig_.work(seconds);
    rig_.device_updates_s_ += seconds;
  }

 private:
  VirtualRig& rig_;
};

/// The engine makes its stream up first, then its stream down.
class VirtualRig::Gpu final : public Device {
 public:
  explicit Gpu(VirtualRig& rig) : rig_(rig) {}

  DeviceKind kind() const override { return rig_.machine_.kind; }
  KernelPlace kernels() const override { return KernelPlace::nowhere; }
  std::string description() const override { return "virtual"; }
  Result<std::unique_ptr<Stream>> make_stream() override {
    VirtualBus& bus = rig_.bus_;
    if (n_streams_++ == 0)
      return std::unique_ptr<Stream>(std::make_unique<BusStream<&VirtualBus::copy_up>>(bus, bus.up()));
    return std::unique_ptr<Stream>(std::make_unique<BusStream<&VirtualBus::copy_down>>(bus, bus.down()));
  }
  std::unique_ptr<Stream> wrap_compute_stream(void*) override { return std::make_unique<ComputeStream>(rig_); }
  MemoryResource& device_memory() override { return rig_.device_memory_; }
  PageSource* pages() override { return kind() == DeviceKind::cuda ? &pages_ : nullptr; }
  MemoryResource& host_memory() override { return rig_.host_memory_; }
  std::uint64_t total_memory_bytes() const override { return rig_.machine_.device_bytes; }
  std::uint64_t free_memory_bytes() const override { return rig_.machine_.device_bytes; }

 private:
  VirtualRig& rig_;
  HollowPages pages_;
  int n_streams_ = 0;
};

/// Jobs take the time of the bytes that they touch; none is run.
class VirtualRig::Team final : public HostTeam {
 public:
  explicit Team(VirtualRig& rig) : rig_(rig) {}
  Event add(Job job) override {
    const double seconds =
        static_cast<double>(job.touched_bytes) / rig_.machine_.host_update_bytes_per_s * rig_.update_slowdown_;
    rig_.team_s_ += seconds;
    return rig_.team_.add(job.urgency, job.after, seconds);
  }
  void limit_threads(unsigned) override {}
  std::unique_ptr<StreamTime> time() override { return rig_.team_.time(); }

 private:
  VirtualRig& rig_;
};

/// A drive that counts the bytes that it holds.
class VirtualRig::Drive final : public SpillStore {
 public:
  Drive(VirtualDrive& drive, Budget& held) : drive_(drive), held_(held) {}

  Event write(ChunkId chunk, BufferView bytes, std::span<const std::uint64_t> checksums) override {
    if (n_bytes_.emplace(chunk, bytes.n_bytes).second) (void)held_.try_reserve(bytes.n_bytes);
    return drive_.write(chunk, bytes, checksums);
  }
  Event read(ChunkId chunk, BufferView bytes) override { return drive_.read(chunk, bytes); }
  void forget(ChunkId chunk) override {
    if (const auto found = n_bytes_.find(chunk); found != n_bytes_.end()) {
      held_.release(found->second);
      n_bytes_.erase(found);
    }
    drive_.forget(chunk);
  }
  std::vector<std::uint64_t> block_ends(std::uint64_t n_bytes) const override { return drive_.block_ends(n_bytes); }
  std::uint64_t checksum(BufferView block) const override { return drive_.checksum(block); }

 private:
  VirtualDrive& drive_;
  Budget& held_;
  std::map<ChunkId, std::uint64_t> n_bytes_;
};

VirtualRig::VirtualRig(const ForecastMachine& machine)
    : machine_(machine),
      bus_(clock_, machine.links, machine.kind == DeviceKind::cuda ? &team_ : nullptr),
      drive_(clock_, machine.links),
      device_memory_(clock_, 0),
      host_memory_(clock_, machine.kind == DeviceKind::cuda ? kSecondsPerPinnedByte : 0) {}

Machine VirtualRig::parts(bool nvme) {
  Machine parts;
  parts.make_device = [this](DLDevice) -> Result<std::unique_ptr<Device>> {
    return std::unique_ptr<Device>(std::make_unique<Gpu>(*this));
  };
  parts.link_costs = [this](Device&, const EngineOptions&) { return machine_.links; };
  if (nvme)
    parts.make_drive = [this](Budget& held) -> std::unique_ptr<SpillStore> {
      return std::make_unique<Drive>(drive_, held);
    };
  parts.make_team = [this](unsigned, unsigned) -> Result<std::unique_ptr<HostTeam>> {
    return std::unique_ptr<HostTeam>(std::make_unique<Team>(*this));
  };
  parts.available_host = [this] { return LimitedBytes{machine_.host_bytes, ""}; };
  parts.now_ns = [this] { return clock_.now_ns(); };
  return parts;
}

void VirtualRig::end_step(const StepEstimate& step) {
  if (machine_.kind != DeviceKind::cuda) return;
  const double beside = std::min(1.0, step.beside_s / step.step_s);  // of the step, and so of its copies and operations
  const double lost_bytes = beside * (kLostPerByteUp * static_cast<double>(step.moved.h2d) +
                                      kLostPerByteDown * static_cast<double>(step.moved.d2h));
  const double updated_bytes = step.beside_s / update_slowdown_ * machine_.host_update_bytes_per_s;
  update_slowdown_ = updated_bytes > 0 ? 1 + lost_bytes / updated_bytes : 1;
  compute_slowdown_ = slowdown(beside, machine_.compute_slowdown);
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "dry_run.h"

#include <algorithm>
#include <numeric>
#include <string>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

constexpr std::uint64_t kMomentNs = 10'000'000;  // long beside the clock's own steps

class NoTime final : public StreamTime {
 public:
  explicit NoTime(std::uint64_t now_ns) : now_ns_(now_ns) {}
  Result<double> seconds_since(const StreamTime& earlier) const override {
    return static_cast<double>(now_ns_ - dynamic_cast<const NoTime&>(earlier).now_ns_) * 1e-9;
  }

 private:
  const std::uint64_t now_ns_;
};

class NoStream final : public Stream {
 public:
  explicit NoStream(const std::uint64_t& now_ns) : now_ns_(now_ns) {}
  Event copy(void*, const void*, std::uint64_t) override { return {}; }
  Result<void> wait(const Event& event) override { return event.wait(); }
  Event record() override { return {}; }
  std::unique_ptr<StreamTime> time() override { return std::make_unique<NoTime>(now_ns_); }
  Result<void> synchronize() override { return {}; }

 private:
  const std::uint64_t& now_ns_;
};

class NoSpill final : public SpillStore {
 public:
  Event write(std::uint32_t, BufferView) override { return {}; }
  Event read(std::uint32_t, BufferView) override { return {}; }
  void forget(std::uint32_t) override {}
};

bool of_unit(Moment moment) { return moment.kind == MomentKind::forward || moment.kind == MomentKind::backward; }

}  // namespace

Result<void*> NoMemory::allocate(std::uint64_t n_bytes) {
  fresh_bytes_ += n_bytes;
  const std::uintptr_t begin = next_;
  next_ += align_up(n_bytes, kBufferAlignBytes);
  return reinterpret_cast<void*>(begin);
}

Result<void> NoMemory::exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) {
  const std::uint64_t given_bytes = total_bytes(blocks);
  const std::uint64_t asked_bytes = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  const std::uint64_t exchanged_bytes = std::min(given_bytes, asked_bytes);
  CASTOR_TRY(MemoryResource::exchange(blocks, sizes));
  exchanged_bytes_ += exchanged_bytes;
  fresh_bytes_ -= exchanged_bytes;
  return {};
}

Result<void*> InUse::allocate(std::uint64_t n_bytes) {
  auto data = upstream_.allocate(n_bytes);
  if (data.ok()) peak_bytes_ = std::max(peak_bytes_, used_bytes_ += n_bytes);
  return data;
}

void InUse::deallocate(void* data, std::uint64_t n_bytes) noexcept {
  used_bytes_ -= n_bytes;
  upstream_.deallocate(data, n_bytes);
}

double DryRun::PoolTier::waste_percent() const {
  const auto used = static_cast<double>(in_use.peak_bytes());
  return used == 0 ? 0 : 100 * (static_cast<double>(budget.peak_bytes()) - used) / used;
}

DryRun::DryRun(const Model& model)
    : model_(model),
      first_gradient_(static_cast<ChunkId>(model.iteration.n_bytes.size() - model.layout.chunks.size())),
      device_(Tier::device, model.device_bytes),
      host_(Tier::host, model.host_bytes),
      stream_(std::make_unique<NoStream>(now_ns_)),
      spill_(std::make_unique<NoSpill>()),
      chunks_({device_.in_use, host_.in_use, spill_.get(), *stream_, *stream_, *stream_, timeline_}),
      mover_(chunks_, device_.budget, host_.budget, *stream_, timeline_) {}

/// As the optimizer does it: made on the host chunk after chunk, and what does not stay there goes on.
Result<void> DryRun::give_contents() {
  const auto& n_bytes = model_.iteration.n_bytes;
  for (ChunkId id = 0; id < n_bytes.size(); ++id)
    (void)chunks_.add(ChunkKind::payload, n_bytes[id], "chunk " + std::to_string(id));
  for (ChunkId id = 0; id < first_gradient_; ++id) {
    CASTOR_TRY(mover_.open(id, Tier::host));
    chunks_.written(id, Tier::host);
    if (model_.iteration.rest[id] == only(Tier::nvme)) CASTOR_TRY(mover_.push_down(id, Tier::host));
    mover_.set_rest(id, model_.iteration.rest[id]);
  }
  if (model_.n_ranks > 1) add_gathered();
  mover_.forget_trace();
  return {};
}

void DryRun::add_gathered() {
  ChunkId payload = 0;
  for (std::size_t i = 0; i < model_.layout.chunks.size(); ++i) {
    const ChunkShape& whole = model_.layout.chunks[i];
    gathered_[payload] = chunks_.add(ChunkKind::payload, whole.numel * size_bytes(whole.dtype), "gathered chunk");
    payload += 1 + model_.shards.chunks[i].n_tiles();
  }
}

Result<void> DryRun::step() {
  if (chunks_.n_chunks() == 0) CASTOR_TRY(give_contents());
  device_.memory.count_anew();
  host_.memory.count_anew();
  moved_before_ = chunks_.moved();
  for (std::uint64_t position = 0; position < model_.iteration.trace.n_moments(); ++position)
    CASTOR_TRY(run_moment(position));
  mover_.end_iteration();
  return {};
}

/// Gradients arrive in the middle of a moment, and gathered chunks last as long as it does.
std::vector<Need> DryRun::needs_of(std::uint64_t position) const {
  const AccessTrace& trace = model_.iteration.trace;
  if (!of_unit(trace.moment(position))) return {trace.needs(position).begin(), trace.needs(position).end()};
  std::vector<Need> needs;
  for (const Need& need : trace.needs(position)) {
    if (is_gradient(need.chunk)) continue;
    needs.push_back(need);
    const auto whole = gathered_.find(need.chunk);
    if (whole != gathered_.end()) needs.push_back({whole->second, Tier::device, Access::overwrite});
  }
  return needs;
}

Result<void> DryRun::gradients_arrive(std::uint64_t position) {
  const AccessTrace& trace = model_.iteration.trace;
  if (!of_unit(trace.moment(position))) return {};
  for (const Need& need : trace.needs(position)) {
    if (!is_gradient(need.chunk)) continue;
    CASTOR_TRY(mover_.edit(need.chunk, need.tier));
    mover_.arriving(need.chunk, need.tier, trace.arriving_bytes(position, need.chunk), {});
  }
  return {};
}

Result<void> DryRun::run_moment(std::uint64_t position) {
  const AccessTrace& trace = model_.iteration.trace;
  const std::vector<Need> needs = needs_of(position);
  CASTOR_TRY(mover_.begin(trace.moment(position), needs));
  now_ns_ += kMomentNs;
  CASTOR_TRY(gradients_arrive(position));
  mover_.end(needs);
  for (const Need& need : needs)
    if (need.chunk >= model_.iteration.n_bytes.size() || trace.dropped(position, need.chunk))
      mover_.discard(need.chunk);
  return {};
}

LinkBytes DryRun::moved() const {
  const LinkBytes& now = chunks_.moved();
  return {now.h2d - moved_before_.h2d, now.d2h - moved_before_.d2h, now.nvme_read - moved_before_.nvme_read,
          now.nvme_write - moved_before_.nvme_write};
}

}  // namespace castor

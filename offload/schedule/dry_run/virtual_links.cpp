// SPDX-License-Identifier: Apache-2.0
#include <castor/schedule/virtual_links.h>

namespace castor {
namespace {

Event point(VirtualClock& clock, double at_s) { return Event(std::make_shared<VirtualPoint>(clock, at_s)); }

}  // namespace

Event VirtualStream::copy(void*, const void*, std::uint64_t n_bytes) {
  run(static_cast<double>(n_bytes) * seconds_per_byte_);
  return record();
}

Result<void> VirtualStream::wait(const Event& event) {
  if (const auto* virtual_point = dynamic_cast<const VirtualPoint*>(event.state())) {
    free_s_ = std::max(free_s_, virtual_point->at_s());
    return {};
  }
  return event.wait();
}

Event VirtualStream::record() { return point(clock_, free_s_); }

std::unique_ptr<StreamTime> VirtualStream::time() {
  return std::make_unique<VirtualTime>(std::max(free_s_, clock_.now_s()));
}

Result<void> VirtualStream::synchronize() { return clock_.wait_until(free_s_), Result<void>(); }

Event VirtualDrive::write(ChunkId chunk, BufferView bytes, std::span<const std::uint64_t>) {
  const double seconds = static_cast<double>(bytes.n_bytes) * costs_.nvme_write;
  return point(clock_, written_s_[chunk] = take(write_free_s_, clock_.now_s(), seconds));
}

Event VirtualDrive::read(ChunkId chunk, BufferView bytes) {
  const double from_s = std::max(clock_.now_s(), written_s_[chunk]);
  return point(clock_, take(read_free_s_, from_s, static_cast<double>(bytes.n_bytes) * costs_.nvme_read));
}

double VirtualDrive::take(double& lane_free_s, double from_s, double seconds) {
  lane_free_s = std::max(lane_free_s, from_s) + seconds;
  drive_free_s_ = std::max(drive_free_s_, from_s) + costs_.nvme_share * seconds;
  return std::max(lane_free_s, drive_free_s_);
}

}  // namespace castor

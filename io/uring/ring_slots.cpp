// SPDX-License-Identifier: Apache-2.0
#include "uring/ring_slots.h"

#include <algorithm>
#include <cerrno>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

constexpr std::uint64_t kMaxRunBytes = kGiB;
constexpr std::uint64_t kMinRunBytes = 64 * kKiB;  // below this, pinning for each request costs next to nothing

}  // namespace

RingSlots::RingSlots() { files_.fill(-1); }

void RingSlots::add_file(Ring& ring, int fd) {
  const auto slot = std::find(files_.begin(), files_.end(), -1);
  if (slot == files_.end() || file(fd) >= 0) return;
  if (ring.set_file(static_cast<unsigned>(slot - files_.begin()), fd) == 0) *slot = fd;
}

void RingSlots::remove_file(Ring& ring, int fd) {
  const int slot = file(fd);
  if (slot < 0) return;
  ring.set_file(static_cast<unsigned>(slot), -1);
  files_[static_cast<std::size_t>(slot)] = -1;
}

int RingSlots::file(int fd) const {
  const auto found = std::find(files_.begin(), files_.end(), fd);
  return found == files_.end() || fd < 0 ? -1 : static_cast<int>(found - files_.begin());
}

/// The largest run that the limit allows, found by halving.
std::uint64_t RingSlots::add_run(Ring& ring, unsigned slot, BufferView bytes) {
  auto n_bytes = std::min(bytes.n_bytes, kMaxRunBytes);
  while (n_bytes >= kMinRunBytes) {
    const BufferView run{bytes.data, n_bytes};
    const int error_number = ring.set_buffer(slot, run);
    if (error_number == 0) {
      buffers_[slot] = run;
      n_buffers_ = std::max(n_buffers_, slot + 1);
      return n_bytes;
    }
    if (error_number != ENOMEM) return 0;
    n_bytes = align_up(n_bytes / 2, kBufferAlignBytes);
  }
  return 0;
}

std::uint64_t RingSlots::add_buffer(Ring& ring, BufferView bytes) {
  std::uint64_t taken_bytes = 0;
  for (unsigned slot = 0; slot < Ring::kNSlots && taken_bytes < bytes.n_bytes; ++slot) {
    if (buffers_[slot].data) continue;
    const auto n_bytes = add_run(ring, slot, bytes.part(taken_bytes, bytes.n_bytes - taken_bytes));
    if (n_bytes == 0) break;
    taken_bytes += n_bytes;
  }
  return taken_bytes;
}

void RingSlots::remove_buffer(Ring& ring, BufferView bytes) {
  for (unsigned slot = 0; slot < n_buffers_; ++slot) {
    auto& run = buffers_[slot];
    if (!run.data || run.data < bytes.data || run.data >= bytes.data + bytes.n_bytes) continue;
    ring.set_buffer(slot, {});
    run = {};
  }
}

int RingSlots::buffer(const std::byte* data, std::uint64_t n_bytes) const {
  for (unsigned slot = 0; slot < n_buffers_; ++slot) {
    const auto& run = buffers_[slot];
    if (run.data && data >= run.data && data + n_bytes <= run.data + run.n_bytes) return static_cast<int>(slot);
  }
  return -1;
}

void RingSlots::restore(Ring& ring) {
  for (unsigned slot = 0; slot < Ring::kNSlots; ++slot) {
    if (files_[slot] >= 0 && ring.set_file(slot, files_[slot]) != 0) files_[slot] = -1;
    if (buffers_[slot].data && ring.set_buffer(slot, buffers_[slot]) != 0) buffers_[slot] = {};
  }
}

std::uint64_t RingSlots::buffer_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& run : buffers_) sum += run.n_bytes;
  return sum;
}

}  // namespace castor

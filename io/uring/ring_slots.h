// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "uring/ring.h"

namespace castor {

/// The registered files and memory of a ring: a request names a slot, and the kernel need not look the file up or pin
/// the memory again.
///
/// Threads: that of the ring.
class RingSlots {
 public:
  RingSlots();

  void add_file(Ring& ring, int fd);
  void remove_file(Ring& ring, int fd);
  /// The slot of `fd`, or -1.
  int file(int fd) const;

  /// Registers as much of `bytes` from its beginning as slots and the memlock limit allow, in runs of at most 1 GiB
  /// (the kernel's limit for one); returns the number of bytes.
  std::uint64_t add_buffer(Ring& ring, BufferView bytes);
  void remove_buffer(Ring& ring, BufferView bytes);
  /// The slot whose memory contains all these bytes, or -1.
  int buffer(const std::byte* data, std::uint64_t n_bytes) const;

  /// Registers everything with a ring that replaces the old one.
  void restore(Ring& ring);
  std::uint64_t buffer_bytes() const;

 private:
  std::uint64_t add_run(Ring& ring, unsigned slot, BufferView bytes);

  std::array<int, Ring::kNSlots> files_;
  std::array<BufferView, Ring::kNSlots> buffers_;
  unsigned n_buffers_ = 0;  ///< slots from this on are free: a search stops here
};

}  // namespace castor

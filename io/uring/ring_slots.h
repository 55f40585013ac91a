// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "uring/ring.h"

namespace castor {

/// Which files and which memory a ring knows beforehand, so that a request names a slot instead of having them looked
/// up and pinned anew.
///
/// Threads: that of the ring.
class RingSlots {
 public:
  RingSlots();

  void add_file(Ring& ring, int fd);
  void remove_file(Ring& ring, int fd);
  /// The slot of `fd`, or -1.
  int file(int fd) const;

  /// Takes as much of `bytes` from its beginning as there are slots and the memlock limit allows, in runs of at most
  /// 1 GiB (the kernel's limit for one); returns how much.
  std::uint64_t add_buffer(Ring& ring, BufferView bytes);
  void remove_buffer(Ring& ring, BufferView bytes);
  /// The slot that holds all these bytes, or -1.
  int buffer(const std::byte* data, std::uint64_t n_bytes) const;

  /// Tells a ring that was opened anew what the old one knew.
  void restore(Ring& ring);
  std::uint64_t buffer_bytes() const;

 private:
  std::uint64_t add_run(Ring& ring, unsigned slot, BufferView bytes);

  std::array<int, Ring::kNSlots> files_;
  std::array<BufferView, Ring::kNSlots> buffers_;
  unsigned n_buffers_ = 0;  ///< slots below this may be taken: how far a search goes
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "../../support/test_buffer.h"

namespace castor::test {

/// The bytes of a value, at an address that is `shift_bytes` off a page. Byte i of version `seed` can be computed.
class ValueBuffer {
 public:
  explicit ValueBuffer(std::uint64_t n_bytes, std::uint64_t shift_bytes = 0)
      : memory_(n_bytes + shift_bytes), shift_bytes_(shift_bytes) {}

  BufferView view() const { return memory_.view().part(shift_bytes_, memory_.view().n_bytes - shift_bytes_); }
  void fill(std::uint64_t seed) const {
    const BufferView bytes = view();
    for (std::uint64_t i = 0; i < bytes.n_bytes; ++i) bytes.data[i] = TestBuffer::at(seed, i);
  }
  bool holds(std::uint64_t seed) const {
    const BufferView bytes = view();
    for (std::uint64_t i = 0; i < bytes.n_bytes; ++i)
      if (bytes.data[i] != TestBuffer::at(seed, i)) return false;
    return true;
  }

 private:
  TestBuffer memory_;
  std::uint64_t shift_bytes_;
};

}  // namespace castor::test

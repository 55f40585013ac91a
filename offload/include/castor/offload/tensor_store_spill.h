// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/chunk/spill_store.h>
#include <castor/io/tensor_store.h>

namespace castor {

/// The NVMe tier of the chunk layer: chunks under their numbers in a TensorStore.
class TensorStoreSpill final : public SpillStore {
 public:
  /// `store` is borrowed and must outlive this.
  explicit TensorStoreSpill(TensorStore& store) : store_(store) {}

  Event write(std::uint32_t chunk, BufferView bytes) override { return store_.put(chunk, bytes); }
  Event read(std::uint32_t chunk, BufferView bytes) override { return store_.get(chunk, bytes); }
  void forget(std::uint32_t chunk) override { store_.remove(chunk); }

 private:
  TensorStore& store_;
};

}  // namespace castor

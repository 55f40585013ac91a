// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/chunk/spill_store.h>
#include <castor/io/tensor_store.h>
#include <castor/memory/budget.h>

namespace castor {

/// The NVMe tier of the chunk layer: keeps chunks in a TensorStore, under their numbers counted from `first_key`.
class TensorStoreSpill final : public SpillStore {
 public:
  /// What a value takes in the store beyond its bytes, at the most.
  static constexpr std::uint64_t kPaddingBytes = std::uint64_t{1} << 12;

  /// `store` is borrowed and must outlive this; so is `budget`, of a store that nothing else uses and whose contents no
  /// commit needs: near its limit room is made in time.
  explicit TensorStoreSpill(TensorStore& store, const Budget* budget = nullptr) : store_(store), budget_(budget) {}

  /// Sets the first key from the next call on; contents written before are not found any more.
  void set_first_key(std::uint64_t key) { first_key_ = key; }
  std::uint64_t first_key() const { return first_key_; }

  Event write(ChunkId chunk, BufferView bytes, std::span<const std::uint64_t> checksums) override {
    return store_.put(first_key_ + number(chunk), bytes, checksums);
  }
  Event read(ChunkId chunk, BufferView bytes) override { return store_.get(first_key_ + number(chunk), bytes); }
  void forget(ChunkId chunk) override { store_.remove(first_key_ + number(chunk)); }
  Result<void> check_room(std::uint64_t n_bytes, const std::string& label) const override;
  /// None below kLeastCheckedBytes: queueing the work would take longer than the checksum.
  std::vector<std::uint64_t> block_ends(std::uint64_t n_bytes) const override {
    return n_bytes < kLeastCheckedBytes ? std::vector<std::uint64_t>() : store_.block_ends(n_bytes);
  }
  std::uint64_t checksum(BufferView block) const override { return TensorStore::block_checksum(block); }

 private:
  static constexpr std::uint64_t kLeastCheckedBytes = std::uint64_t{1} << 18;

  TensorStore& store_;
  const Budget* const budget_;
  std::uint64_t first_key_ = 0;
};

}  // namespace castor

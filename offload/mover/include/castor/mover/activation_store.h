// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include <castor/chunk/chunk_manager.h>
#include <castor/mover/stateful_tensor_mgr.h>

namespace castor {

/// Activations that no operator reads between a forward pass and its backward pass (the inputs of recomputed parts), in
/// chunks that move by the rules of all others: the plan may evict them from the device meanwhile.
///
/// After its activation is forgotten a chunk is reused for the next activation of the same size. Iterations that keep
/// and forget activations in the same order therefore use the same chunks, and can be planned.
///
/// Threads: one at a time.
class ActivationStore {
 public:
  /// Borrowed; must outlive the store.
  struct Parts {
    ChunkManager& chunks;
    StatefulTensorMgr& mover;
    Stream& compute;
  };

  explicit ActivationStore(const Parts& parts) : parts_(parts) {}

  /// Copies `n_bytes` from the model's device in the order of the compute stream; `data` may be freed in that order
  /// too. Returns the chunk that holds the copy; none where no tier has room or no moment is under way, and then the
  /// caller keeps the bytes. Errors: io.
  [[nodiscard]] Result<std::optional<ChunkId>> keep(const void* data, std::uint64_t n_bytes);

  /// Fetches the bytes back to the device, once, for work that is queued on the compute stream until `forget`. Errors:
  /// as those of the mover.
  [[nodiscard]] Result<BufferView> recall(ChunkId kept);

  /// Discards the bytes, whether they were recalled or not. Errors: those of StatefulTensorMgr::discard.
  [[nodiscard]] Result<void> forget(ChunkId kept);

  /// The peak of kept bytes so far, and the largest size for which a chunk was made.
  std::uint64_t peak_bytes() const { return peak_bytes_; }
  std::uint64_t largest_bytes() const { return free_.empty() ? 0 : free_.rbegin()->first; }

 private:
  ChunkId take(std::uint64_t n_bytes);
  Result<void> fill(ChunkId id, const void* data, std::uint64_t n_bytes);

  const Parts parts_;
  std::map<std::uint64_t, std::set<ChunkId>> free_;  ///< by size
  std::set<ChunkId> recalled_;
  std::uint64_t kept_bytes_ = 0, peak_bytes_ = 0;
};

}  // namespace castor

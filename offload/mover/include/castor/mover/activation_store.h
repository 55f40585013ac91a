// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include <castor/chunk/chunk_manager.h>
#include <castor/mover/stateful_tensor_mgr.h>

namespace castor {

/// Activations that nobody reads between a forward pass and its backward pass (the inputs of recomputed parts), in chunks
/// that move by the rules of all others: the plan may take them off the device meanwhile.
///
/// A chunk is used again for the next activation of its size once its last one is forgotten. Iterations that keep and
/// forget in the same order therefore use the same chunks, and can be planned.
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

  /// Copies `n_bytes` of the model's device in the order of the compute stream; `data` may be freed in that order too.
  /// Returns the chunk that has them; none where no tier has room or no moment is under way, and then the caller keeps
  /// them. Errors: io.
  [[nodiscard]] Result<std::optional<ChunkId>> keep(const void* data, std::uint64_t n_bytes);

  /// Brings the bytes back to the device, once, for what is queued on the compute stream until `forget`. Errors: as those
  /// of the mover.
  [[nodiscard]] Result<BufferView> recall(ChunkId kept);

  /// Nobody wants the bytes any more, whether recalled or not.
  void forget(ChunkId kept);

  /// The most that was kept at once so far, and the largest that was tried.
  std::uint64_t peak_bytes() const { return peak_bytes_; }
  std::uint64_t largest_bytes() const { return free_.empty() ? 0 : free_.rbegin()->first; }

 private:
  ChunkId take(std::uint64_t n_bytes);

  const Parts parts_;
  std::map<std::uint64_t, std::set<ChunkId>> free_;  ///< by size
  std::set<ChunkId> recalled_;
  std::uint64_t kept_bytes_ = 0, peak_bytes_ = 0;
};

}  // namespace castor

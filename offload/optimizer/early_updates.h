// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/chunk/chunk_layout.h>

namespace castor {

/// Finds the chunks that may be updated before the backward pass is over: those whose tensors have all got as many
/// gradients as in the step before, in which no unit used the chunk after its last gradient.
///
/// The prediction that a step repeats the one before may be wrong. A caller that updates by it must refuse gradients
/// and uses that contradict it, unless the update can be taken back.
class EarlyUpdates {
 public:
  explicit EarlyUpdates(const ChunkLayout& layout);

  /// Expects one gradient of every tensor of the next step, and no use after it. Requires: no step has ended.
  void expect_one_each();
  /// True from then to the end of a step.
  bool assumes() const { return assumes_; }
  /// Begins the backward pass after which the step is made.
  void announce();
  bool announced() const { return announced_; }
  /// Counts a gradient of `tensor`.
  void landed(TensorId tensor);
  /// Records that a unit uses the chunk's weights.
  void used(PayloadId chunk);
  /// Chunks that have all their expected gradients and are not updated, in the order in which they were completed.
  std::vector<PayloadId> ready() const;
  void set_updated(PayloadId chunk) { chunks_.at(chunk).updated = true; }
  /// Updated since announce().
  bool updated(PayloadId chunk) const { return chunks_.at(chunk).updated; }
  /// Ends the backward pass without its step: the next one is expected to repeat the step before. Requires: no chunk is
  /// updated.
  void abandon();
  /// Ends the step, whose counts are expected of the next one.
  void end_step();

 private:
  struct Tensor {
    std::uint32_t n_landed = 0, n_expected = 0;  ///< since announce(), and of the step before
  };
  struct Chunk {
    std::uint32_t n_missing = 0;  ///< tensors whose gradients are not as many as expected
    bool known = false;           ///< each of its tensors got a gradient in the step before
    bool used_after = false;      ///< … and the chunk was used after the last of them
    bool updated = false;
    std::uint64_t last_landed = 0, last_used = 0;  ///< by n_happened_
  };

  const ChunkLayout& layout_;
  IndexedVector<TensorId, Tensor> tensors_;
  IndexedVector<PayloadId, Chunk> chunks_;
  std::vector<PayloadId> complete_;  ///< since announce()
  std::uint64_t n_happened_ = 0;
  bool announced_ = false;
  bool assumes_ = false;
};

}  // namespace castor

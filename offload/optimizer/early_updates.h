// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/chunk/chunk_layout.h>

namespace castor {

/// Which chunks may be updated before the backward pass is over: those whose tensors have all got as many gradients as in
/// the step before, in which nobody used the chunk after its last gradient.
///
/// That a step goes the way of the one before is a guess. Who updates by it must refuse what proves it wrong, unless
/// the update can be taken back.
class EarlyUpdates {
 public:
  explicit EarlyUpdates(const ChunkLayout& layout);

  /// The backward pass begins after which the step is taken.
  void announce();
  bool announced() const { return announced_; }
  /// A gradient of `tensor` has come.
  void landed(std::uint32_t tensor);
  /// A unit looks at the chunk's weights.
  void used(std::uint32_t chunk);
  /// Chunks that have all that they are expected to get and are not updated, in the order in which they got there.
  std::vector<std::uint32_t> ready() const;
  void set_updated(std::uint32_t chunk) { chunks_.at(chunk).updated = true; }
  /// Updated since announce().
  bool updated(std::uint32_t chunk) const { return chunks_.at(chunk).updated; }
  /// The step is over; the next one is expected to go its way.
  void end_step();

 private:
  struct Tensor {
    std::uint32_t n_landed = 0, n_expected = 0;  ///< since announce(), and of the step before
  };
  struct Chunk {
    std::uint32_t n_missing = 0;  ///< tensors that have not got all they are expected to
    bool known = false;           ///< each of its tensors got a gradient in the step before
    bool used_after = false;      ///< … and it was used after the last of them
    bool updated = false;
    std::uint64_t last_landed = 0, last_used = 0;  ///< by count of what happened
  };

  const ChunkLayout& layout_;
  std::vector<Tensor> tensors_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> complete_;  ///< since announce()
  std::uint64_t n_happened_ = 0;
  bool announced_ = false;
};

}  // namespace castor

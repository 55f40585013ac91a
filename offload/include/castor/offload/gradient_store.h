// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/chunk/chunk_manager.h>
#include <castor/memory/device.h>
#include <castor/offload/grad_accumulator.h>
#include <castor/offload/stateful_tensor_mgr.h>

namespace castor {

/// One gradient as autograd hands it over: contiguous, on the model's device, of the dtype of its payload chunk.
struct ArrivedGradient {
  const void* data = nullptr;
  std::function<void()> free;  ///< called once, when the bytes have been read; empty: the caller waits until then
};

/// The gradients of one step, in gradient chunks on the tier of their update.
///
/// A chunk's gradients keep the dtype in which they arrive until one of its tensors gets a second gradient (another
/// micro-batch, a parameter used twice); then the chunk widens to fp32, once, and sums there in order of arrival.
/// Summing from the start in fp32 gives the same bits, because the first conversion is exact.
///
/// Threads: one at a time.
class GradientStore {
 public:
  /// Borrowed; must outlive the store.
  struct Parts {
    const ChunkLayout& layout;
    ChunkManager& chunks;
    StatefulTensorMgr& mover;
    Device& device;
    Stream& compute;
    Stream& down;
  };

  /// Registers two chunks per trainable payload chunk: one of its dtype, one of fp32 (the same where the dtype is
  /// fp32).
  static Result<std::unique_ptr<GradientStore>> make(const Parts& parts);
  /// Waits for the copies under way and frees their sources.
  ~GradientStore();

  /// The tier on which the gradients of `payload_chunk` are gathered from the next step on: device or host.
  void set_tier(std::uint32_t payload_chunk, Tier tier) { slots_.at(payload_chunk).tier = tier; }

  /// Takes a gradient of `tensor`, which work queued on the compute stream may still read; gives it back in any case, once
  /// it is read. Errors: those of the mover; from
  /// the first on, every call until `clear` hands that one on, and the tensor has no more gradient than before.
  [[nodiscard]] Result<void> add(std::uint32_t tensor, ArrivedGradient gradient);

  /// The error with which a gradient of this step was lost, if one was: the others are no step without it.
  [[nodiscard]] Result<void> intact() const { return intact_; }

  bool has(std::uint32_t tensor) const { return n_arrived_.at(tensor) > 0; }
  bool any(std::uint32_t payload_chunk) const;
  bool complete(std::uint32_t payload_chunk) const;

  /// The chunk that holds the gradients of `payload_chunk` now, and their dtype.
  ChunkId chunk(std::uint32_t payload_chunk) const;
  DType dtype(std::uint32_t payload_chunk) const;
  Tier tier(std::uint32_t payload_chunk) const { return slots_.at(payload_chunk).tier; }

  /// Gives the memory of a chunk's gradients back: they have been applied. What came is known until `clear`.
  void release(std::uint32_t payload_chunk);

  /// Forgets all gradients. What is still being read is given back later.
  void clear();

  /// Gives back what has been read by now, in the order in which it came.
  void free_read();

 private:
  struct Slot {
    ChunkId narrow = 0;  ///< of the payload's dtype
    ChunkId wide = 0;    ///< of fp32
    Tier tier = Tier::host;
    bool widened = false;
  };
  struct InFlight {
    Event read;
    std::function<void()> free;
  };

  explicit GradientStore(const Parts& parts) : parts_(parts) {}
  Result<void> place(std::uint32_t tensor, const void* data, Event& read);
  Result<void> accumulate(std::uint32_t tensor, const void* data, Event& read);
  Result<void> widen(std::uint32_t payload_chunk);
  Result<const void*> on_host(std::uint32_t tensor, const void* data);
  GradAccumulator& accumulator(Tier tier) { return tier == Tier::device ? *device_sums_ : *host_sums_; }

  const Parts parts_;
  std::vector<Slot> slots_;               ///< by payload chunk
  std::vector<std::uint32_t> n_arrived_;  ///< by tensor, in this step
  Result<void> intact_;                   ///< the first error of this step
  std::deque<InFlight> in_flight_;
  std::unique_ptr<GradAccumulator> device_sums_;
  std::unique_ptr<GradAccumulator> host_sums_ = make_host_accumulator();
  std::optional<ChunkId> staging_;  ///< one gradient on its way to a sum on the host
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/chunk/chunk_manager.h>
#include <castor/memory/device.h>
#include <castor/memory/host_team.h>
#include <castor/rules/grad_accumulator.h>
#include <castor/mover/stateful_tensor_mgr.h>
#include <castor/optimizer/gradients_in_flight.h>

namespace castor {

/// One gradient as autograd hands it over: contiguous, on the model's device, of the dtype of its payload chunk.
struct ArrivedGradient {
  const void* data = nullptr;
  std::function<void()> free;  ///< called once, when the bytes have been read; empty: add() waits until then
};

/// The gradients of one step, in gradient chunks on the tier of their update.
///
/// A chunk's gradients keep the dtype in which they arrive until one of its tensors gets a second gradient (another
/// micro-batch, a parameter used twice). Then the gradients of the chunk are added to fp32 sums; later ones are added
/// as soon as all tensors of the chunk have a new one, or one tensor gets another. Summing from the start in fp32 would
/// give the same bits, because the first conversion is exact. On the host the team adds them up, and the training
/// thread does not wait.
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
    HostTeam& team;
  };

  /// Registers three chunks per trainable payload chunk: two of its dtype, one of fp32.
  static Result<std::unique_ptr<GradientStore>> make(const Parts& parts);
  /// Waits for copies and sums under way and frees the sources.
  ~GradientStore();

  /// The tier on which the gradients of `payload_chunk` are gathered from the next step on: device or host.
  void set_tier(PayloadId payload_chunk, Tier tier) { slots_.at(payload_chunk).tier = tier; }

  /// Takes a gradient of `tensor`, which work queued on the compute stream may still write or read; frees it in any
  /// case, once it is read. Errors: those of the mover; from the first error on, every call until `end_step` returns
  /// that error and does not count its gradient.
  [[nodiscard]] Result<void> add(TensorId tensor, ArrivedGradient gradient);

  /// The error with which a gradient of this step was lost, if one was: the step must not be made without it.
  [[nodiscard]] Result<void> intact() const { return intact_; }

  bool has(TensorId tensor) const { return n_arrived_.at(tensor) > 0; }
  bool any(PayloadId payload_chunk) const;
  bool complete(PayloadId payload_chunk) const;

  /// Replaces values of the gradient of `tensor`, from number `first` on, which is kept in fp32 from then on; a tensor
  /// that has none gets one. Waits until they are copied. Errors: those of the mover; then the gradient is as before,
  /// but for the place of its values. Requires: the chunk's tensor has these values, and all of them are given where it
  /// has no gradient.
  [[nodiscard]] Result<void> write(TensorId tensor, std::uint64_t first, std::span<const float> values);

  /// Adds up the gradients that arrived since the last sum: from then on one chunk holds the gradients of
  /// `payload_chunk`. Errors: those of the mover; then nothing has changed.
  [[nodiscard]] Result<void> finish_sum(PayloadId payload_chunk);

  /// The chunk that holds the gradients of `payload_chunk`, and their dtype. Requires: finish_sum() was
  /// called after the last of them.
  ChunkId chunk(PayloadId payload_chunk) const;
  DType dtype(PayloadId payload_chunk) const;
  Tier tier(PayloadId payload_chunk) const { return slots_.at(payload_chunk).tier; }

  /// Discards a chunk's gradients, which have been applied. has(), any() and complete() still count them until `clear`.
  /// Errors: those of StatefulTensorMgr::discard.
  [[nodiscard]] Result<void> release(PayloadId payload_chunk);

  /// Forgets the gradients of a trained chunk. Sources that are still being read are freed later. Errors: as release.
  [[nodiscard]] Result<void> clear(PayloadId payload_chunk);

  /// True once gradients of some tensor were added up, in any step.
  bool adds_up() const { return adds_up_; }

  /// Ends the step: forgets the error of a lost gradient.
  void end_step();

  /// The gradients that are still being read.
  GradientsInFlight& in_flight() { return in_flight_; }

 private:
  struct Slot {
    std::array<ChunkId, 2> narrow = {};  ///< of the payload's dtype; one is added up while the other fills
    std::uint32_t turn = 0;              ///< narrow[turn] holds the gradients since the last sum
    ChunkId wide{};                      ///< the fp32 sums
    Tier tier = Tier::host;
    bool widened = false;  ///< `wide` holds sums
  };

  explicit GradientStore(const Parts& parts) : parts_(parts), in_flight_(parts.mover) {}
  Result<void> place(TensorId tensor, const void* data, GradientsInFlight::Gradient& gradient);
  Result<void> sum_up(PayloadId payload_chunk);
  Result<void> widen(PayloadId payload_chunk);
  Result<Event> add_fresh(PayloadId payload_chunk);
  std::vector<TensorId> fresh(PayloadId payload_chunk) const;

  const Parts parts_;
  IndexedVector<PayloadId, Slot> slots_;
  IndexedVector<TensorId, std::uint32_t> n_arrived_;  ///< in this step
  IndexedVector<TensorId, bool> fresh_;               ///< the narrow chunk has a gradient of it
  IndexedVector<TensorId, bool> summed_;              ///< the wide chunk has a sum of it
  bool adds_up_ = false;
  Result<void> intact_;  ///< the first error of this step
  GradientsInFlight in_flight_;
  std::deque<Event> summing_;  ///< sums on the host that are not known to have ended
  std::unique_ptr<GradAccumulator> device_sums_;
  std::unique_ptr<GradAccumulator> host_sums_ = make_host_accumulator();
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
// When each chunk is updated: as soon as its gradients are complete, in the step, or when its weights are next used.
#include <castor/optimizer/offload_optimizer.h>

#include <string>
#include <utility>

#include "early_updates.h"

namespace castor {

/// What was not updated early.
Result<void> OffloadOptimizer::update_rest(const StepOptions& options, double grad_scale) {
  for (std::uint32_t i = 0; i < n_chunks(); ++i) {
    if (!parts_.layout.chunks[i].trainable || !gradients_->any(i) || early_->updated(i)) continue;
    if (parts_.interrupted()) return Error{ErrorKind::interrupted, "interrupted while the parameters were updated"};
    if (waits_for_use(i))
      defer(i, options, grad_scale);
    else
      CASTOR_TRY(update_chunk(i, options, grad_scale));
  }
  return {};
}

/// Its states come to the device while the units before its next use compute.
void OffloadOptimizer::defer(std::uint32_t i, const StepOptions& options, double grad_scale) {
  pending_[i] = true;
  pending_options_ = options;
  pending_scale_ = grad_scale;
}

Result<void> OffloadOptimizer::make_pending() {
  CASTOR_TRY(take_back_all());
  return make_all_pending();
}

Result<void> OffloadOptimizer::make_all_pending() {
  for (std::uint32_t i = 0; i < n_chunks(); ++i) CASTOR_TRY(make_pending(i));
  return {};
}

/// Of the step that is over.
Result<void> OffloadOptimizer::make_pending(std::uint32_t i) {
  if (!pending_[i]) return {};
  pending_[i] = false;
  if (auto updated = update_chunk(i, pending_options_, pending_scale_); !updated.ok()) return poisoned_ = true, updated;
  gradients_->clear(i);
  begun_ = false;
  return {};
}

Result<void> OffloadOptimizer::announce(const StepOptions& options) {
  CASTOR_TRY(make_pending());
  CASTOR_TRY(whole());
  if (begun_) return poisoned_ = true, whole().error();
  wants_norm_ = options.needs_norm();
  if (!parts_.overlap) return {};
  announced_ = options;
  early_->announce();
  return {};
}

Error OffloadOptimizer::broken_promise(std::uint32_t i, const std::string& what) {
  poisoned_ = true;
  return {ErrorKind::failed,
          what + " " + parts_.chunks.chunk(payload_[i]).label +
              " after its update, which came as early as the step before allowed; the model goes another "
              "way in every step: set overlap_updates=false"};
}

Result<void> OffloadOptimizer::add_gradient(std::uint32_t tensor, ArrivedGradient gradient) {
  const std::uint32_t i = parts_.layout.tensors.at(tensor).chunk;
  if (early_->updated(i)) {
    if (gradient.free) gradient.free();
    return broken_promise(i, "a gradient came for");
  }
  auto updated = take_back(i);
  if (updated.ok()) updated = make_pending(i);
  if (!updated.ok()) {
    if (gradient.free) gradient.free();
    return updated;
  }
  measure_arrival(tensor, gradient.data);
  CASTOR_TRY(gradients_->add(tensor, std::move(gradient)));
  if (early_->announced()) early_->landed(tensor);
  return {};
}

/// The first gradient of a tensor, where it is now: on the device, long before anybody asks. Where that fails it is measured
/// on the tier of its update.
void OffloadOptimizer::measure_arrival(std::uint32_t tensor, const void* grad) {
  const TensorPlace& place = parts_.layout.tensors[tensor];
  const DType dtype = parts_.layout.chunks[place.chunk].dtype;
  measured_[tensor] = wants_norm_ && !gradients_->has(tensor) &&
                      device_norm_->sum_of_squares(parts_.compute, grad, dtype, place.numel, &sums()[tensor]).ok();
}

Result<void> OffloadOptimizer::use(std::uint32_t i) {
  if (early_->updated(i)) return broken_promise(i, "a unit needs");
  if (early_->announced()) early_->used(i);
  CASTOR_TRY(take_back(i));
  return make_pending(i);
}

/// Those whose states are kept on the device are updated in no time, at the end.
bool OffloadOptimizer::early(std::uint32_t i) const { return plan_.states[i] != Tier::device; }

Result<void> OffloadOptimizer::update_early() {
  gradients_->free_read();
  for (const std::uint32_t i : early_->ready()) {
    if (!early(i) || parts_.chunks.chunk(payload_[i]).pinned()) continue;
    if (announced_.needs_norm()) {
      if (can_speculate(i)) CASTOR_TRY(speculate(i));
      continue;
    }
    if (auto updated = update_chunk(i, announced_, StepScale().grad_scale); !updated.ok())
      return poisoned_ = begun_, updated;
    early_->set_updated(i);
  }
  return {};
}

}  // namespace castor

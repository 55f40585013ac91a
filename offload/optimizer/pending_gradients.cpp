// SPDX-License-Identifier: Apache-2.0
#include <castor/optimizer/pending_gradients.h>

#include <castor/rules/update_arrays.h>

#include <string>

#include "norms/gradient_norm.h"
#include "step_machine.h"

namespace castor {

/// Makes the gradients those of this step alone, all of them. `wish` begins the sentence of a refusal: "the norm was
/// asked for".
Result<void> PendingGradients::complete(const char* wish) {
  if (parts_.machine.in(StepState::updating))
    return Error{ErrorKind::usage,
                 std::string(wish) +
                     " after parameters were updated early in this step; ask before the step is announced, or announce "
                     "the step with max_norm"};
  CASTOR_TRY(parts_.barrier.complete_all());
  return parts_.store.intact();
}

/// A step with a norm, of which the norm alone is looked at.
Result<double> PendingGradients::norm() {
  CASTOR_TRY(complete("the norm was asked for"));
  StepOptions measured;
  measured.max_norm = 1;
  CASTOR_ASSIGN(const StepScale scale, parts_.norm.measure(measured));
  return scale.grad_norm;
}

Result<bool> PendingGradients::has(TensorId tensor) {
  CASTOR_TRY(complete("a gradient was asked for"));
  return parts_.store.has(tensor);
}

Result<void> PendingGradients::read(TensorId tensor, std::uint64_t first, std::span<float> values) {
  CASTOR_TRY(complete("a gradient was asked for"));
  const TensorPlace& place = parts_.layout.tensors.at(tensor);
  CASTOR_TRY(parts_.store.finish_sum(place.chunk));
  const DType dtype = parts_.store.dtype(place.chunk);
  CASTOR_ASSIGN(const BufferView grads, parts_.mover.look(parts_.store.chunk(place.chunk), Tier::host));
  widen_weights(grads.data + (place.offset + first) * size_bytes(dtype), dtype, values.data(), values.size());
  return {};
}

Result<void> PendingGradients::write(TensorId tensor, std::uint64_t first, std::span<const float> values) {
  CASTOR_TRY(complete("a gradient was to be written"));
  CASTOR_TRY(parts_.store.write(tensor, first, values));
  parts_.norm.replaced(tensor);
  return {};
}

}  // namespace castor

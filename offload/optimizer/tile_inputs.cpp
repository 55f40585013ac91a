// SPDX-License-Identifier: Apache-2.0
#include "tile_inputs.h"

namespace castor {

UpdateArrays TileInputs::arrays(PayloadId chunk, TileId tile, const TilePart& part) const {
  const Tier tier = states.update_tier(chunk);
  UpdateArrays arrays;
  states.tile_states(chunk, tile, data(states.state(chunk, tile), tier)).point(arrays, part.in_tile);
  arrays.old_states = undo.bytes_to_old(states.state(chunk, tile));
  arrays.old_weight = undo.bytes_to_old(states.payload(chunk));
  arrays.grad_dtype = gradients.dtype(chunk);
  arrays.grad = data(gradients.chunk(chunk), tier) + part.in_chunk * size_bytes(arrays.grad_dtype);
  arrays.weight_dtype = states.shape(chunk).dtype;
  // measuring masters that are not split fetches no weights
  if (std::byte* const weights = data(states.payload(chunk), tier))
    arrays.weight = weights + part.in_chunk * size_bytes(arrays.weight_dtype);
  arrays.n = part.numel;
  arrays.first = static_cast<std::uint32_t>(part.in_tensor);
  return arrays;
}

UpdateCoefficients TileInputs::coefficients(TensorId tensor, std::uint64_t t, const StepTerms& terms,
                                            const float* trust) const {
  const UpdateNumber update = {t, states.registered(tensor), states.format().rounding_seed, trust};
  return update_coefficients(terms.options.of(tensor), update, terms.grad_scale);
}

TrustedTensor TileInputs::whole(TensorId tensor) const {
  const TensorPlace& place = states.layout().tensors[tensor];
  const Tier tier = states.update_tier(place.chunk);
  TrustedTensor found;
  found.n = place.numel;
  found.weight_dtype = states.shape(place.chunk).dtype;
  found.weight = data(states.payload(place.chunk), tier) + place.offset * size_bytes(found.weight_dtype);
  found.grad_dtype = gradients.dtype(place.chunk);
  found.grad = data(gradients.chunk(place.chunk), tier) + place.offset * size_bytes(found.grad_dtype);
  return found;
}

bool TileInputs::reads_weights(PayloadId chunk, const StepOptions& options) const {
  const bool measures_weights = options.needs_trust() && !options.measures_direction();
  return measures_weights || states.format().splits(states.shape(chunk).dtype);
}

}  // namespace castor

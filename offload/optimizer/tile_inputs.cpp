// SPDX-License-Identifier: Apache-2.0
#include "tile_inputs.h"

namespace castor {

AdamArrays TileInputs::arrays(std::uint32_t i, std::uint32_t tile, const TilePart& part) const {
  const Tier tier = states.update_tier(i);
  AdamArrays arrays;
  states.tile_states(i, tile, data(states.state(i, tile), tier)).point(arrays, part.in_tile);
  arrays.old_states = kept.bytes_to_old(states.state(i, tile));
  arrays.old_weight = kept.bytes_to_old(states.payload(i));
  arrays.grad_dtype = gradients.dtype(i);
  arrays.grad = data(gradients.chunk(i), tier) + part.in_chunk * size_bytes(arrays.grad_dtype);
  arrays.weight_dtype = states.shape(i).dtype;
  if (std::byte* const weights = data(states.payload(i), tier))  // measuring masters that are not split fetches none
    arrays.weight = weights + part.in_chunk * size_bytes(arrays.weight_dtype);
  arrays.n = part.numel;
  arrays.first = static_cast<std::uint32_t>(part.in_tensor);
  return arrays;
}

UpdateCoefficients TileInputs::coefficients(std::uint32_t tensor, std::uint64_t t, const StepTerms& terms,
                                            const float* trust) const {
  const UpdateNumber number = {t, states.registered(tensor), states.format().rounding_seed, trust};
  return update_coefficients(terms.options.of(tensor), number, terms.grad_scale);
}

TrustedTensor TileInputs::whole(std::uint32_t tensor) const {
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

bool TileInputs::reads_weights(std::uint32_t i, const StepOptions& options) const {
  const bool measures_weights = options.needs_trust() && !options.measures_direction();
  return measures_weights || states.format().splits(states.shape(i).dtype);
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "engine_activations.h"

namespace castor {
namespace {

constexpr std::uint32_t kNotKept = 0;

std::uint32_t number_of(ChunkId chunk) { return number(chunk) + 1; }
ChunkId chunk_of(std::uint32_t kept) { return ChunkId{kept - 1}; }

}  // namespace

Result<std::uint32_t> EngineActivations::keep(const void* data, std::uint64_t n_bytes) {
  if (!rooms_.options.offload_activations) return kNotKept;
  if (rooms_.warming_up) placer_.make_room_for_activation(n_bytes);
  if (!placer_.has_room_for_activation(n_bytes)) return kNotKept;
  CASTOR_ASSIGN(const std::optional<ChunkId> chunk, rooms_.activations->keep(data, n_bytes));
  if (!chunk) return kNotKept;
  rooms_.calls.keep(*chunk, n_bytes);
  return number_of(*chunk);
}

Result<void*> EngineActivations::recall(std::uint32_t kept) {
  rooms_.calls.about(StepCall::Kind::recall, chunk_of(kept));
  CASTOR_ASSIGN(const BufferView view, rooms_.activations->recall(chunk_of(kept)));
  return static_cast<void*>(view.data);
}

Result<void> EngineActivations::forget(std::uint32_t kept) {
  rooms_.calls.about(StepCall::Kind::forget, chunk_of(kept));
  return rooms_.activations->forget(chunk_of(kept));
}

}  // namespace castor

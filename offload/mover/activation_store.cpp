// SPDX-License-Identifier: Apache-2.0
#include <castor/mover/activation_store.h>

#include <algorithm>
#include <string>

namespace castor {

/// The free chunk of that size with the lowest number, or a new one.
ChunkId ActivationStore::take(std::uint64_t n_bytes) {
  auto& free = free_[n_bytes];
  if (free.empty())
    return parts_.chunks.add(ChunkKind::activation, n_bytes,
                             "activation " + std::to_string(parts_.chunks.ids().size()));
  return free.extract(free.begin()).value();
}

Result<std::optional<ChunkId>> ActivationStore::keep(const void* data, std::uint64_t n_bytes) {
  if (!parts_.mover.guide().in_iteration()) return std::optional<ChunkId>();  // of no moment, so no plan could move it
  const ChunkId id = take(n_bytes);
  if (const auto filled = fill(id, data, n_bytes); !filled.ok()) {
    free_[n_bytes].insert(id);
    if (filled.error().kind == ErrorKind::does_not_fit) return std::optional<ChunkId>();
    return filled.error();
  }
  peak_bytes_ = std::max(peak_bytes_, kept_bytes_ += n_bytes);
  return std::optional(id);
}

/// Gives the chunk new contents on the device.
Result<void> ActivationStore::fill(ChunkId id, const void* data, std::uint64_t n_bytes) {
  CASTOR_ASSIGN(const BufferView opened, parts_.mover.open(id, Tier::device));
  const Event copied = parts_.compute.copy(opened.data, data, n_bytes);
  if (copied.ready() && !copied.wait().ok()) {
    CASTOR_TRY(parts_.mover.discard(id));
    return copied.wait();
  }
  parts_.chunks.written(id, Tier::device);
  return {};
}

Result<BufferView> ActivationStore::recall(ChunkId kept) {
  CASTOR_ASSIGN(const BufferView view, parts_.mover.hold(kept, Tier::device));
  recalled_.insert(kept);
  return view;
}

Result<void> ActivationStore::forget(ChunkId kept) {
  const std::uint64_t n_bytes = parts_.chunks.chunk(kept).n_bytes;
  if (free_[n_bytes].contains(kept)) return {};
  if (recalled_.erase(kept) > 0) parts_.mover.unhold(kept, Tier::device);
  CASTOR_TRY(parts_.mover.discard(kept));
  free_[n_bytes].insert(kept);
  kept_bytes_ -= n_bytes;
  return {};
}

}  // namespace castor

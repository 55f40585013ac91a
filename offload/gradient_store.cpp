// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/gradient_store.h>

#include <algorithm>
#include <string>

namespace castor {

Result<std::unique_ptr<GradientStore>> GradientStore::make(const Parts& parts) {
  std::unique_ptr<GradientStore> store(new GradientStore(parts));
  CASTOR_ASSIGN(store->device_sums_, make_accumulator(parts.device));
  std::uint64_t largest_tensor_bytes = 0;
  for (std::size_t i = 0; i < parts.layout.chunks.size(); ++i) {
    const ChunkShape& shape = parts.layout.chunks[i];
    Slot slot;
    if (shape.trainable) {
      const std::string label = "gradients of chunk " + std::to_string(i);
      slot.narrow = parts.chunks.add(ChunkKind::gradient, shape.numel * size_bytes(shape.dtype), label);
      slot.wide = shape.dtype == DType::f32
                      ? slot.narrow
                      : parts.chunks.add(ChunkKind::gradient, shape.numel * 4, label + " in fp32");
      for (const std::uint32_t tensor : shape.tensors)
        largest_tensor_bytes =
            std::max(largest_tensor_bytes, parts.layout.tensors[tensor].numel * size_bytes(shape.dtype));
    }
    store->slots_.push_back(slot);
  }
  store->n_arrived_.assign(parts.layout.tensors.size(), 0);
  if (parts.device.kind() != DeviceKind::cpu && largest_tensor_bytes > 0)
    store->staging_ = parts.chunks.add(ChunkKind::gradient, largest_tensor_bytes, "staging for gradients");
  return store;
}

GradientStore::~GradientStore() {
  for (const InFlight& gradient : in_flight_) (void)gradient.read.wait();
  free_read();
}

bool GradientStore::any(std::uint32_t payload_chunk) const {
  const auto& tensors = parts_.layout.chunks.at(payload_chunk).tensors;
  return std::any_of(tensors.begin(), tensors.end(), [this](std::uint32_t tensor) { return has(tensor); });
}

bool GradientStore::complete(std::uint32_t payload_chunk) const {
  const auto& tensors = parts_.layout.chunks.at(payload_chunk).tensors;
  return std::all_of(tensors.begin(), tensors.end(), [this](std::uint32_t tensor) { return has(tensor); });
}

ChunkId GradientStore::chunk(std::uint32_t payload_chunk) const {
  const Slot& slot = slots_.at(payload_chunk);
  return slot.widened ? slot.wide : slot.narrow;
}

DType GradientStore::dtype(std::uint32_t payload_chunk) const {
  return slots_.at(payload_chunk).widened ? DType::f32 : parts_.layout.chunks.at(payload_chunk).dtype;
}

Result<void> GradientStore::add(std::uint32_t tensor, ArrivedGradient gradient) {
  free_read();
  in_flight_.push_back(
      {parts_.compute.record(), std::move(gradient.free)});  // first of all: whatever happens, it is given back
  Event& read = in_flight_.back().read;
  if (intact_.ok())
    intact_ = has(tensor) ? accumulate(tensor, gradient.data, read) : place(tensor, gradient.data, read);
  if (intact_.ok()) ++n_arrived_[tensor];
  if (!in_flight_.back().free) {  // how it ended is its chunk's arrival
    (void)read.wait();
    in_flight_.pop_back();
  }
  return intact_;
}

/// Copies the first gradient of a tensor to its place; in a chunk that has widened already, converts it. `read`: after it
/// the gradient is there; it becomes the one after which it has been read.
Result<void> GradientStore::place(std::uint32_t tensor, const void* data, Event& read) {
  const TensorPlace& place = parts_.layout.tensors[tensor];
  const Slot& slot = slots_[place.chunk];
  if (slot.widened && slot.wide != slot.narrow) return accumulate(tensor, data, read);
  CASTOR_ASSIGN(const BufferView view, parts_.mover.edit(slot.narrow, slot.tier));
  Stream& lane = slot.tier == Tier::device ? parts_.compute : parts_.down;
  const Event arrived = parts_.chunks.chunk(slot.narrow).at(slot.tier).arrived;
  if (arrived.ready()) CASTOR_TRY(arrived.wait());  // a failure that is known need not stop the lane
  CASTOR_TRY(lane.wait(arrived));
  CASTOR_TRY(lane.wait(read));
  const std::uint64_t width = size_bytes(parts_.layout.chunks[place.chunk].dtype);
  read = lane.copy(view.data + place.offset * width, data, place.numel * width);
  parts_.mover.arriving(slot.narrow, slot.tier, place.numel * width, read);
  return {};
}

/// Adds a gradient to what is there in fp32 (to nothing, where the tensor's first one comes after the chunk has
/// widened).
Result<void> GradientStore::accumulate(std::uint32_t tensor, const void* data, Event& read) {
  const TensorPlace& place = parts_.layout.tensors[tensor];
  const Slot& slot = slots_[place.chunk];
  const DType dtype = parts_.layout.chunks[place.chunk].dtype;
  if (!slot.widened) CASTOR_TRY(widen(place.chunk));
  if (slot.tier == Tier::host) {
    CASTOR_ASSIGN(data, on_host(tensor, data));
  }
  CASTOR_TRY(parts_.mover.look(slot.wide, slot.tier));
  CASTOR_ASSIGN(const BufferView sums, parts_.mover.edit(slot.wide, slot.tier));
  float* sum = reinterpret_cast<float*>(sums.data) + place.offset;
  GradAccumulator& kernel = accumulator(slot.tier);
  CASTOR_TRY(has(tensor) ? kernel.add(parts_.compute, sum, data, dtype, place.numel)
                         : kernel.widen(parts_.compute, sum, data, dtype, place.numel));
  parts_.chunks.written(slot.wide, slot.tier);
  if (slot.tier == Tier::device) read = parts_.compute.record();
  return {};
}

/// Takes what has arrived in the chunk so far over to fp32.
Result<void> GradientStore::widen(std::uint32_t payload_chunk) {
  Slot& slot = slots_[payload_chunk];
  if (slot.wide == slot.narrow) return slot.widened = true, Result<void>();
  CASTOR_ASSIGN(const BufferView narrow, parts_.mover.look(slot.narrow, slot.tier));
  parts_.chunks.pin(slot.narrow, slot.tier);
  auto wide = parts_.mover.open(slot.wide, slot.tier);
  parts_.chunks.unpin(slot.narrow, slot.tier);
  if (!wide.ok()) return wide.error();
  const ChunkShape& shape = parts_.layout.chunks[payload_chunk];
  CASTOR_TRY(accumulator(slot.tier).widen(parts_.compute, reinterpret_cast<float*>(wide->data), narrow.data,
                                          shape.dtype, shape.numel));
  parts_.chunks.written(slot.wide, slot.tier);
  parts_.chunks.read_until(slot.narrow, slot.tier, parts_.compute.record());
  parts_.mover.discard(slot.narrow);
  slot.widened = true;
  return {};
}

/// The gradient in memory that this thread can read.
Result<const void*> GradientStore::on_host(std::uint32_t tensor, const void* data) {
  if (!staging_) return data;
  const TensorPlace& place = parts_.layout.tensors[tensor];
  CASTOR_ASSIGN(const BufferView staging, parts_.mover.open(*staging_, Tier::host));
  CASTOR_TRY(parts_.down.wait(parts_.compute.record()));
  const std::uint64_t n_bytes = place.numel * size_bytes(parts_.layout.chunks[place.chunk].dtype);
  CASTOR_TRY(parts_.down.copy(staging.data, data, n_bytes).wait());
  return static_cast<const void*>(staging.data);
}

/// How reading one ended is its chunk's arrival, which the update waits for.
void GradientStore::free_read() {
  for (; !in_flight_.empty() && in_flight_.front().read.ready(); in_flight_.pop_front()) in_flight_.front().free();
}

void GradientStore::release(std::uint32_t payload_chunk) { parts_.mover.discard(chunk(payload_chunk)); }

void GradientStore::clear() {
  free_read();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!parts_.layout.chunks[i].trainable) continue;
    parts_.mover.discard(slots_[i].narrow);
    if (slots_[i].wide != slots_[i].narrow) parts_.mover.discard(slots_[i].wide);
    slots_[i].widened = false;
  }
  if (staging_) parts_.mover.discard(*staging_);
  std::fill(n_arrived_.begin(), n_arrived_.end(), 0);
  intact_ = {};
}

}  // namespace castor

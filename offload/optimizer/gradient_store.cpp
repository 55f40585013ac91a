// SPDX-License-Identifier: Apache-2.0
#include <castor/optimizer/gradient_store.h>

#include <algorithm>
#include <string>
#include <utility>

#include "gradient_sum.h"

namespace castor {
namespace {

/// Returns a failure that is known by now, before it stops a lane.
Result<void> known_failure(const Event& arrived) { return arrived.ready() ? arrived.wait() : Result<void>(); }

}  // namespace

Result<std::unique_ptr<GradientStore>> GradientStore::make(const Parts& parts) {
  std::unique_ptr<GradientStore> store(new GradientStore(parts));
  CASTOR_ASSIGN(store->device_sums_, make_accumulator(parts.device));
  for (const PayloadId chunk : parts.layout.chunks.ids()) {
    const ChunkShape& shape = parts.layout.chunks[chunk];
    Slot& slot = store->slots_[store->slots_.push_back({})];
    if (!shape.trainable) continue;
    const std::string label = "gradients of chunk " + std::to_string(number(chunk));
    const std::uint64_t n_bytes = shape.numel * size_bytes(shape.dtype);
    slot.narrow = {parts.chunks.add(ChunkKind::gradient, n_bytes, label),
                   parts.chunks.add(ChunkKind::gradient, n_bytes, label + ", in turns")};
    slot.wide = parts.chunks.add(ChunkKind::gradient, shape.numel * 4, label + ", added up");
  }
  store->n_arrived_.assign(parts.layout.tensors.size(), 0);
  store->fresh_.assign(parts.layout.tensors.size(), false);
  store->summed_.assign(parts.layout.tensors.size(), false);
  return store;
}

GradientStore::~GradientStore() {
  for (const Event& sum : summing_) (void)sum.wait();
}

bool GradientStore::any(PayloadId payload_chunk) const {
  const auto& tensors = parts_.layout.chunks.at(payload_chunk).tensors;
  return std::any_of(tensors.begin(), tensors.end(), [this](TensorId tensor) { return has(tensor); });
}

bool GradientStore::complete(PayloadId payload_chunk) const {
  const auto& tensors = parts_.layout.chunks.at(payload_chunk).tensors;
  return std::all_of(tensors.begin(), tensors.end(), [this](TensorId tensor) { return has(tensor); });
}

ChunkId GradientStore::chunk(PayloadId payload_chunk) const {
  const Slot& slot = slots_.at(payload_chunk);
  return slot.widened ? slot.wide : slot.narrow[slot.turn];
}

DType GradientStore::dtype(PayloadId payload_chunk) const {
  return slots_.at(payload_chunk).widened ? DType::f32 : parts_.layout.chunks.at(payload_chunk).dtype;
}

Result<void> GradientStore::add(TensorId tensor, ArrivedGradient gradient) {
  in_flight_.free_read();
  const TensorPlace& to = parts_.layout.tensors.at(tensor);
  const std::uint64_t n_bytes = to.numel * size_bytes(parts_.layout.chunks[to.chunk].dtype);
  // Before anything can fail, so that the gradient is freed in any case.
  auto& arrived = in_flight_.add({parts_.compute.record(), std::move(gradient.free), n_bytes});
  if (intact_.ok()) intact_ = place(tensor, gradient.data, arrived);
  if (intact_.ok()) ++n_arrived_[tensor];
  if (!arrived.free) in_flight_.wait_for_last();
  return intact_;
}

/// Copies a gradient to its place among those that arrived since the last sum. Its `read` is the event after which it
/// has its values; place() sets it to the event after which it has been read.
Result<void> GradientStore::place(TensorId tensor, const void* data, GradientsInFlight::Gradient& gradient) {
  const TensorPlace& place = parts_.layout.tensors[tensor];
  const Slot& slot = slots_[place.chunk];
  if (fresh_[tensor]) CASTOR_TRY(sum_up(place.chunk));
  const ChunkId narrow = slot.narrow[slot.turn];
  CASTOR_ASSIGN(const BufferView view, parts_.mover.edit(narrow, slot.tier));
  Stream& lane = slot.tier == Tier::device ? parts_.compute : parts_.down;
  const Event arrived = parts_.chunks.chunk(narrow).at(slot.tier).arrived;
  if (parts_.device.kind() == DeviceKind::cuda || !gradient.free)  // the thread waits here or below
    CASTOR_TRY(parts_.mover.join_host(arrived, parts_.chunks.chunk(narrow).label));
  CASTOR_TRY(known_failure(arrived));
  CASTOR_TRY(lane.wait(arrived));
  CASTOR_TRY(lane.wait(gradient.read));
  const std::uint64_t width = size_bytes(parts_.layout.chunks[place.chunk].dtype);
  gradient.read = lane.copy(view.data + place.offset * width, data, gradient.n_bytes);
  parts_.mover.arriving(narrow, slot.tier, gradient.n_bytes, gradient.read);
  fresh_[tensor] = true;
  const bool all = slot.widened && fresh(place.chunk).size() == parts_.layout.chunks[place.chunk].tensors.size();
  return all ? sum_up(place.chunk) : Result<void>();
}

std::vector<TensorId> GradientStore::fresh(PayloadId payload_chunk) const {
  std::vector<TensorId> found;
  for (const TensorId tensor : parts_.layout.chunks[payload_chunk].tensors)
    if (fresh_[tensor]) found.push_back(tensor);
  return found;
}

Result<void> GradientStore::finish_sum(PayloadId payload_chunk) {
  const bool due = slots_.at(payload_chunk).widened && !fresh(payload_chunk).empty();
  return due ? sum_up(payload_chunk) : Result<void>();
}

/// Has all gradients of the chunk in its fp32 sums, whose memory is made if there is none.
Result<void> GradientStore::widen(PayloadId payload_chunk) {
  if (!fresh(payload_chunk).empty()) CASTOR_TRY(sum_up(payload_chunk));
  Slot& slot = slots_.at(payload_chunk);
  if (slot.widened) return {};
  CASTOR_TRY(parts_.mover.open(slot.wide, slot.tier));
  parts_.chunks.written(slot.wide, slot.tier);
  slot.widened = adds_up_ = true;
  return {};
}

Result<void> GradientStore::write(TensorId tensor, std::uint64_t first, std::span<const float> values) {
  const TensorPlace& place = parts_.layout.tensors.at(tensor);
  CASTOR_TRY(widen(place.chunk));
  const Slot& slot = slots_[place.chunk];
  CASTOR_ASSIGN(const BufferView sums, parts_.mover.edit(slot.wide, slot.tier));
  const Event arrived = parts_.chunks.chunk(slot.wide).at(slot.tier).arrived;
  CASTOR_TRY(parts_.mover.join_host(arrived, parts_.chunks.chunk(slot.wide).label));
  CASTOR_TRY(arrived.wait());
  const Event copied =
      parts_.compute.copy(sums.data + (place.offset + first) * sizeof(float), values.data(), values.size_bytes());
  CASTOR_TRY(copied.wait());
  parts_.chunks.written(slot.wide, slot.tier);
  summed_[tensor] = true;
  n_arrived_[tensor] = std::max(n_arrived_[tensor], 1u);
  return {};
}

/// Adds the gradients that arrived since the last sum to the fp32 sums.
Result<void> GradientStore::sum_up(PayloadId payload_chunk) {
  Slot& slot = slots_[payload_chunk];
  const ChunkId narrow = slot.narrow[slot.turn];
  CASTOR_TRY(parts_.mover.edit(narrow, slot.tier));
  CASTOR_TRY(known_failure(parts_.chunks.chunk(narrow).at(slot.tier).arrived));
  parts_.chunks.pin(narrow, slot.tier);
  const auto sums = slot.widened ? parts_.mover.edit(slot.wide, slot.tier) : parts_.mover.open(slot.wide, slot.tier);
  parts_.chunks.unpin(narrow, slot.tier);
  if (!sums.ok()) return sums.error();
  CASTOR_TRY(known_failure(parts_.chunks.chunk(slot.wide).at(slot.tier).arrived));
  CASTOR_ASSIGN(const Event done, add_fresh(payload_chunk));
  parts_.chunks.written(slot.wide, slot.tier, done);
  parts_.chunks.read_until(narrow, slot.tier, done);
  CASTOR_TRY(parts_.mover.discard(narrow));
  slot.widened = adds_up_ = true;
  slot.turn ^= 1;
  for (const TensorId tensor : fresh(payload_chunk)) fresh_[tensor] = false, summed_[tensor] = true;
  return {};
}

/// Queues the sum: on the compute stream for the device, to the team for the host. Both chunks have their memory; their
/// bytes may still be arriving.
Result<Event> GradientStore::add_fresh(PayloadId payload_chunk) {
  const Slot& slot = slots_[payload_chunk];
  const ChunkCopy &narrow = parts_.chunks.chunk(slot.narrow[slot.turn]).at(slot.tier),
                  &wide = parts_.chunks.chunk(slot.wide).at(slot.tier);
  const ChunkShape& shape = parts_.layout.chunks[payload_chunk];
  GradientSum sum(shape.dtype, reinterpret_cast<float*>(wide.buffer.data()), narrow.buffer.data());
  for (const TensorId tensor : fresh(payload_chunk)) sum.add(parts_.layout.tensors[tensor], summed_[tensor]);
  if (slot.tier == Tier::device) {
    CASTOR_TRY(parts_.compute.wait(narrow.arrived));
    if (slot.widened) CASTOR_TRY(parts_.compute.wait(wide.arrived));
    CASTOR_TRY(sum.run(*device_sums_, parts_.compute));
    return parts_.compute.record();
  }
  HostTeam::Job job;
  job.urgency = number(payload_chunk);
  job.after = {narrow.arrived};
  if (slot.widened) job.after.push_back(wide.arrived);
  job.n_parts = sum.n_parts();
  job.run = [this, sum = std::move(sum)](std::uint32_t part) {
    return sum.run_part(*host_sums_, parts_.compute, part);
  };
  std::erase_if(summing_, [](const Event& event) { return event.ready(); });
  summing_.push_back(parts_.team.add(std::move(job)));
  return summing_.back();
}

Result<void> GradientStore::release(PayloadId payload_chunk) {
  for (const ChunkId narrow : slots_[payload_chunk].narrow) CASTOR_TRY(parts_.mover.discard(narrow));
  return parts_.mover.discard(slots_[payload_chunk].wide);
}

Result<void> GradientStore::clear(PayloadId payload_chunk) {
  Slot& slot = slots_.at(payload_chunk);
  CASTOR_TRY(release(payload_chunk));
  slot.widened = false;
  slot.turn = 0;  // every step uses the chunks in the same order
  for (const TensorId tensor : parts_.layout.chunks[payload_chunk].tensors) {
    n_arrived_[tensor] = 0;
    fresh_[tensor] = summed_[tensor] = false;
  }
  return {};
}

void GradientStore::end_step() {
  in_flight_.free_read();
  intact_ = {};
}

}  // namespace castor

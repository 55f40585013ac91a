// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

#include <cstddef>

#include "engine_memory.h"

namespace castor {
namespace {

constexpr const char* kReleased =
    "it is not on the device now; use it in the forward pass of its module, or within castor.gathered(parameter)";
constexpr const char* kPending =
    "it is not up to date, since its update waits for the next forward pass of its module; use it there, or within "
    "castor.gathered(parameter)";

}  // namespace

Bindings::Bindings(ModelHost& host, const ModelShape& model, const ChunkLayout& layout,
                   const IndexedVector<ParamId, std::optional<TensorId>>& place_of)
    : host_(host), model_(model), layout_(layout), place_of_(place_of), bound_(model.params.size(), false) {}

Result<void> Bindings::bind(UnitId unit, const ChunkManager& chunks) {
  for (const ParamId param : model_.units[unit]) CASTOR_TRY(bind(param, chunks));
  return {};
}

Result<void> Bindings::bind(ParamId param, const ChunkManager& chunks) {
  if (bound_[param]) return {};
  std::byte* data = no_elements_.data();
  if (!model_.params[param].empty()) {
    const TensorPlace& place = layout_.tensors[place_of_[param].value()];
    data = chunks.chunk(payloads_[place.chunk]).at(Tier::device).buffer.data() +
           place.offset * size_bytes(layout_.chunks[place.chunk].dtype);
  }
  CASTOR_TRY(host_.bind(number(param), data));
  bound_[param] = true;
  return {};
}

void Bindings::released(ChunkId id) {
  for (const PayloadId chunk : payloads_.ids())
    if (payloads_[chunk] == id) return unbind(chunk, kReleased);
}

void Bindings::outdated(PayloadId chunk) { unbind(chunk, kPending); }

void Bindings::unbind_first_values() {
  bound_.assign(model_.params.size(), true);
  unbind_all();
}

void Bindings::unbind_all() {
  for (const ParamId param : bound_.ids()) unbind_param(param, kReleased);
}

void Bindings::unbind(PayloadId chunk, const char* reason) {
  for (const TensorId tensor : layout_.chunks[chunk].tensors) unbind_param(model_.order[tensor], reason);
}

void Bindings::unbind_param(ParamId param, const char* reason) {
  if (!bound_[param]) return;
  (void)host_.unbind(number(param), reason);
  bound_[param] = false;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

#include <algorithm>
#include <cstddef>

#include "engine_memory.h"

namespace castor {
namespace {

constexpr const char* kReleased = "it is not on the device now: its chunk was released; use it only inside its unit";
constexpr const char* kPending =
    "it is not up to date: its update waits for its unit's next use; use it only inside its unit";

}  // namespace

Bindings::Bindings(const castor_host_v1& host, const ModelShape& model, const ChunkLayout& layout,
                   const std::vector<std::uint32_t>& place_of)
    : host_(host), model_(model), layout_(layout), place_of_(place_of), bound_(model.params.size(), false) {}

Result<void> Bindings::bind(std::uint32_t unit, const ChunkManager& chunks) {
  for (const std::uint32_t param : model_.units[unit]) {
    if (bound_[param]) continue;
    std::byte* data = no_elements_.data();
    if (!model_.params[param].empty()) {
      const TensorPlace& place = layout_.tensors[place_of_[param]];
      data = chunks.chunk(payloads_[place.chunk]).at(Tier::device).buffer.data() +
             place.offset * size_bytes(layout_.chunks[place.chunk].dtype);
    }
    const castor_status status = host_.bind(host_.self, param, data);
    if (status != CASTOR_OK) return failed_by_host(status);
    bound_[param] = true;
  }
  return {};
}

void Bindings::released(ChunkId id) {
  const auto found = std::find(payloads_.begin(), payloads_.end(), id);
  if (found != payloads_.end()) unbind(static_cast<std::uint32_t>(found - payloads_.begin()), kReleased);
}

void Bindings::outdated(std::uint32_t i) { unbind(i, kPending); }

void Bindings::unbind_all() {
  for (std::uint32_t param = 0; param < bound_.size(); ++param) unbind_param(param, kReleased);
}

void Bindings::unbind(std::uint32_t i, const char* reason) {
  for (const std::uint32_t tensor : layout_.chunks[i].tensors) unbind_param(model_.order[tensor], reason);
}

void Bindings::unbind_param(std::uint32_t param, const char* reason) {
  if (!bound_[param]) return;
  (void)host_.unbind(host_.self, param, reason);
  bound_[param] = false;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/strategy.h>

#include "engine_rooms.h"
#include "placer.h"

namespace castor {

/// The inputs of recomputed parts as chunks (offload_activations).
class EngineActivations final : public ActivationCalls {
 public:
  /// Borrowed.
  EngineActivations(EngineRooms& rooms, Placer& placer) : rooms_(rooms), placer_(placer) {}

  /// 0, where the options do not turn this on or no tier has room. Errors of all three: those of ActivationStore.
  Result<std::uint32_t> keep(const void* data, std::uint64_t n_bytes) override;
  Result<void*> recall(std::uint32_t kept) override;
  Result<void> forget(std::uint32_t kept) override;

 private:
  EngineRooms& rooms_;
  Placer& placer_;
};

}  // namespace castor

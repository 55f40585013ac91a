// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/engine/recorded_model.h>

#include "bench/common/stopped.h"

namespace castor::bench {

/// A recorded model in bf16 on the CPU that computes nothing: every gradient holds the same small number.
class IdleModel final : public RecordedModel {
 public:
  /// `step` is borrowed.
  IdleModel(const RecordedStep& step, Stopped stopped);

  std::int32_t interrupted() override { return stopped_() ? 1 : 0; }

  /// One forward and one backward pass and a step of AdamW. Errors: those of `strategy`.
  Result<void> step(Strategy& strategy);

 private:
  DLManagedTensor* gradient(std::uint32_t param) override;

  const Stopped stopped_;
  std::vector<std::uint16_t> gradient_;  ///< as long as the longest parameter
};

}  // namespace castor::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <castor/models/model.h>

#include "train/data.h"
#include "train/options/options.h"

namespace castor::train {

/// The batches of a run: windows of a text at random offsets, or the model's own random input. A batch depends on the
/// seed, the step and the micro-batch alone.
class BatchSource {
 public:
  /// `model` is borrowed. Errors: usage if the options have a text and the model reads none; those of ByteData.
  static Result<std::unique_ptr<BatchSource>> make(const TrainOptions& options, Model& model, c10::Device device);

  /// Batch `micro` of `step`, on the device.
  Result<Batch> next(std::int64_t step, std::int64_t micro);

 private:
  BatchSource(const TrainOptions& options, Model& model, c10::Device device, std::optional<ByteData> data)
      : options_(options), model_(model), device_(device), data_(std::move(data)) {}
  Result<Batch> read_text(const ByteData& data, std::int64_t step, std::int64_t micro);

  const TrainOptions& options_;
  Model& model_;
  const c10::Device device_;
  const std::optional<ByteData> data_;
};

}  // namespace castor::train

// SPDX-License-Identifier: Apache-2.0
#include "train/batches.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace castor::train {
namespace {

constexpr std::int64_t kNBytes = 256;

Result<void> check_reader(const std::string& name, const Model& model) {
  if (!model.reads_text())
    return Error{ErrorKind::usage,
                 "--data: model '" + name + "' takes no text; leave --data out to train on random input"};
  if (model.vocabulary() >= kNBytes) return {};
  return Error{ErrorKind::usage, "--data: bytes are the ids 0 to 255, and model '" + name + "' knows " +
                                     std::to_string(model.vocabulary()) + "; give it vocab=256 or more"};
}

}  // namespace

Result<std::unique_ptr<BatchSource>> BatchSource::make(const TrainOptions& options, Model& model, c10::Device device) {
  std::optional<ByteData> data;
  if (!options.data.empty()) {
    CASTOR_TRY(check_reader(options.model, model));
    CASTOR_ASSIGN(ByteData opened, ByteData::open(options.data, options.seq));
    data.emplace(std::move(opened));
  }
  return std::unique_ptr<BatchSource>(new BatchSource(options, model, device, std::move(data)));
}

Result<Batch> BatchSource::next(std::int64_t step, std::int64_t micro) {
  if (data_) return read_text(*data_, step, micro);
  const std::uint64_t seed =
      counter_random(options_.seed, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(micro));
  return model_.random_batch(options_.batch, seed);
}

Result<Batch> BatchSource::read_text(const ByteData& data, std::int64_t step, std::int64_t micro) {
  const at::Tensor input = at::empty({options_.batch, options_.seq}, at::kLong);
  const at::Tensor target = at::empty({options_.batch, options_.seq}, at::kLong);
  std::vector<std::uint8_t> window(static_cast<std::size_t>(options_.seq) + 1);
  for (std::int64_t sample = 0; sample < options_.batch; ++sample) {
    const std::int64_t number = micro * options_.batch + sample;
    const std::uint64_t offset =
        data.offset(options_.seed, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(number));
    CASTOR_TRY(data.read(offset, window));
    std::copy(window.begin(), window.end() - 1, input.data_ptr<std::int64_t>() + sample * options_.seq);
    std::copy(window.begin() + 1, window.end(), target.data_ptr<std::int64_t>() + sample * options_.seq);
  }
  return Batch{input.to(device_), target.to(device_)};
}

}  // namespace castor::train
